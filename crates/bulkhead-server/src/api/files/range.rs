//! The part of a file that `Range` names.

use super::super::problem::{Kind, Problem};

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) start: u64,
    pub(super) length: u64,
}

impl Part {
    /// What `text` names of a file of `size`; nothing where it is of a form that may be ignored.
    pub(super) fn read(text: &str, size: u64) -> Result<Option<Self>, Problem> {
        let Some(spans) = text.trim().strip_prefix("bytes=") else { return Ok(None) };
        // Several parts at once may be answered with the whole.
        let Some((first, last)) = spans.split_once('-').filter(|_| !spans.contains(',')) else {
            return Ok(None);
        };
        let number = |it: &str| it.trim().parse::<u64>().ok();
        let none = || {
            let text = format!("the file has {size} bytes");
            Problem::new(Kind::RangeNotSatisfiable, text)
        };
        let (start, end) = match (first.trim(), last.trim()) {
            ("", count) => {
                let Some(count) = number(count) else { return Ok(None) };
                (size.saturating_sub(count), size)
            }
            (first, "") => {
                let Some(first) = number(first) else { return Ok(None) };
                (first, size)
            }
            (first, last) => {
                let (Some(first), Some(last)) = (number(first), number(last)) else {
                    return Ok(None);
                };
                if last < first {
                    return Ok(None);
                }
                (first, last.saturating_add(1).min(size))
            }
        };
        match end.checked_sub(start) {
            Some(length @ 1..) => Ok(Some(Self { start, length })),
            Some(0) | None => Err(none()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_part_lies_inside_the_file(text in "(bytes=)?[0-9, -]{0,24}", size: u64) {
            if let Ok(Some(part)) = Part::read(&text, size) {
                let end = part.start.checked_add(part.length);
                proptest::prop_assert!(0 < part.length && end.is_some_and(|it| it <= size));
            }
        }
    }

    #[test]
    fn parts_are_read_and_those_behind_the_end_are_refused() {
        let part = |start, length| Some(Part { start, length });
        let read = |text| Part::read(text, 10).unwrap();
        assert_eq!(read("bytes=0-3"), part(0, 4));
        assert_eq!(read("bytes=7-"), part(7, 3));
        assert_eq!(read("bytes=-4"), part(6, 4));
        assert_eq!(read("bytes=5-99"), part(5, 5));
        assert_eq!(read("bytes=5-2"), None);
        assert_eq!(read("bytes=0-1,3-4"), None);
        assert_eq!(read("lines=1-2"), None);
        assert!(Part::read("bytes=10-", 10).is_err());
        assert!(Part::read("bytes=-0", 10).is_err());
        assert!(Part::read("bytes=0-0", 0).is_err());
    }
}
