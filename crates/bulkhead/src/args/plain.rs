//! Command lines of `run` as they are mostly: limits, variables, shares and a program.
//!
//! To describe all flags to a parser takes a fifth of what is ours of a start. So what needs no such
//! description is read without it: flags that stand alone or take one value, and get along with every
//! other flag.
//!
//! Invariant: what this reads means the same to the parser; whatever it does not understand, be it
//! right or wrong, is the parser's.

use std::{
    ffi::{OsStr, OsString},
    str::FromStr,
};

use super::run::RunArgs;

/// What the words after `run` say, `None` if there is anything unusual about them.
pub(super) fn read(words: impl Iterator<Item = OsString>) -> Option<RunArgs> {
    let mut args = RunArgs::default();
    let mut words = words.peekable();
    loop {
        let word = words.next()?;
        let text = word.to_str()?;
        if text == "--" {
            break;
        }
        if text.is_empty() {
            return None;
        }
        if !text.starts_with('-') {
            args.ask.program.push(word);
            break;
        }
        let (flag, value) = match text.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => {
                (flag.to_owned(), Some(OsString::from(value)))
            }
            Some(_) => return None,
            None => (text.to_owned(), None),
        };
        // One that looks like a flag is not what its author meant, or not ours to judge.
        let mut next = || {
            let value = value.clone().or_else(|| words.next())?;
            let plain = value.to_str().is_some_and(|it| !it.starts_with('-') && !it.is_empty());
            plain.then_some(value)
        };
        take(&mut args, &flag, &mut next)?;
    }
    args.ask.program.extend(words);
    (!args.ask.program.is_empty()).then_some(args)
}

fn take(
    args: &mut RunArgs,
    flag: &str,
    next: &mut impl FnMut() -> Option<OsString>,
) -> Option<()> {
    let limits = &mut args.ask.limits;
    match flag {
        "-m" | "--memory" => once(&mut limits.memory, &next()?),
        "--cpus" => once(&mut limits.cpus, &next()?),
        "--pids" => once(&mut limits.pids, &next()?),
        "--disk" => once(&mut limits.disk, &next()?),
        "--timeout" => once(&mut limits.timeout, &next()?),
        "--cpu-time" => once(&mut limits.cpu_time, &next()?),
        "--output" => once(&mut limits.output, &next()?),
        "--files" => once(&mut limits.files, &next()?),
        "-e" | "--env" => {
            args.ask.env.variables.push(next()?);
            Some(())
        }
        "-v" | "--mount" => {
            args.ask.files.mounts.push(next()?);
            Some(())
        }
        _ => None,
    }
}

/// Said twice it is the parser's to refuse.
fn once<T: FromStr>(slot: &mut Option<T>, value: &OsStr) -> Option<()> {
    let value = value.to_str()?.parse().ok()?;
    slot.replace(value).is_none().then_some(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::{super::RunAlone, read};

    fn words(line: &str) -> impl Iterator<Item = std::ffi::OsString> {
        line.split(' ').map(Into::into)
    }

    #[test]
    fn what_is_read_plainly_is_what_the_parser_reads() {
        for line in [
            "true",
            "-- true",
            "echo --memory 1g -- -x",
            "-- echo -- x",
            "--memory 512m --cpus 1.5 --pids 64 -- /bin/true",
            "-m 1g --timeout=5s --timeout-is-not-a-flag=no -- x",
            "--memory=1g --disk 2g --cpu-time 3s --output 4k --files 5 sh -c exit",
            "-e A=1 --env B --env=C=D=E -v /a:/b:ro --mount=/c:/d --timeout none x y",
        ] {
            let parsed = RunAlone::try_parse_from(words(&format!("run {line}")));
            let parsed = parsed.map(|it| format!("{:?}", it.args)).ok();
            let plain = read(words(line)).map(|it| format!("{it:?}"));
            assert_eq!(plain, parsed, "{line}");
        }
    }

    #[test]
    fn whatever_is_unusual_is_left_to_the_parser() {
        for line in [
            "",
            "--",
            "--help",
            "-h x",
            "--memory",
            "--memory 1x true",
            "--memory -1 true",
            "--memory 1g --memory 2g true",
            "--memory= true",
            "-m1g true",
            "-m=1g true",
            "-it true",
            "--dry-run true",
            "--keep --name x true",
            "--memroy 1g true",
            "--net none true",
        ] {
            assert!(read(words(line)).is_none(), "{line}");
        }
    }
}
