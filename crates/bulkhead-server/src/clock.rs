//! Moments on paper.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Microseconds from 1970 until this moment.
pub(crate) fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// A moment as RFC 3339 has it, in UTC and to the microsecond.
pub(crate) fn rfc3339(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, rest) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    let micros = since.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// The moment that `text` names in RFC 3339; an offset from UTC is understood.
pub(crate) fn parse(text: &str) -> Option<SystemTime> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let mut date = date.splitn(3, '-').map(|it| it.parse::<u64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let zone = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at_checked(zone)?;
    let mut clock = clock.splitn(3, ':');
    let (hour, minute) =
        (clock.next()?.parse::<u64>().ok()?, clock.next()?.parse::<u64>().ok()?);
    let second: f64 = clock.next()?.parse().ok()?;
    let written = year <= 9999 && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !written || hour > 23 || minute > 59 || !(0.0..61.0).contains(&second) {
        return None;
    }
    let seconds = days(year, month, day)? * 86_400 + hour * 3600 + minute * 60;
    let micros = Duration::try_from_secs_f64(second).ok()?.as_secs_f64() * 1e6;
    let whole = Duration::from_secs(seconds) + Duration::from_micros(rounded(micros));
    let at = UNIX_EPOCH + whole;
    match zone.split_at_checked(1) {
        None | Some(("Z" | "z", "")) => Some(at),
        Some((sign, offset)) => {
            let (hours, minutes) = offset.split_once(':')?;
            let minutes = u64::from(hours.parse::<u8>().ok()?) * 60
                + u64::from(minutes.parse::<u8>().ok()?);
            let offset = Duration::from_secs(minutes * 60);
            if sign == "+" { at.checked_sub(offset) } else { at.checked_add(offset) }
        }
    }
}

/// The seconds since 1970 of the moment that `text` names in RFC 3339.
pub fn seconds_of(text: &str) -> Option<u64> {
    parse(text)?.duration_since(UNIX_EPOCH).ok().map(|it| it.as_secs())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "less than 61 seconds in microseconds"
)]
fn rounded(micros: f64) -> u64 {
    micros.round() as u64
}

/// Year, month and day of a day counted from 1970.
fn civil(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that the leap day is the last of its year.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, late) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + late, month, day)
}

/// The day of a date counted from 1970.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    let of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    (era * 146_097 + of_era).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_and_read_back() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400_000_001, "2000-02-29T00:00:00.000001Z"),
            (1_794_795_073_999_999, "2026-11-16T02:11:13.999999Z"),
        ] {
            let at = UNIX_EPOCH + Duration::from_micros(micros);
            assert_eq!(rfc3339(at), text);
            assert_eq!(parse(text), Some(at));
        }
        let zoned = parse("2026-11-16T03:11:13.5+01:00").unwrap();
        assert_eq!(rfc3339(zoned), "2026-11-16T02:11:13.500000Z");
        assert_eq!(parse("yesterday"), None);
    }

    #[test]
    fn a_moment_that_no_calendar_has_is_none() {
        for text in [
            "99999999999999-01-01T00:00:00Z",
            "18446744073709551615-12-31T00:00:00Z",
            "0000-01-01T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-11-16T00:00:1e300Z",
            "2026-11-16T00:00:NaNZ",
            "2026-11-16T00:00:-1Z",
            "2026-11-16T00:00:00+307445734561825861:00",
            "2026-11-16T00:00:00+00:18446744073709551615",
            "1970-01-01T00:00:00+01",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        let before = parse("1970-01-01T00:00:00+01:00");
        assert!(before.is_none_or(|it| it < UNIX_EPOCH));
        assert_eq!(seconds_of("1970-01-01T00:00:00+01:00"), None);
    }
}
