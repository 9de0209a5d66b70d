//! Files of variables, in Docker's format: `KEY=VALUE` or `KEY` a line, `#` begins a comment line,
//! values are taken as they are.

use std::{fs::File, io::Read as _, path::Path};

use crate::{codes::Code, config::shown, failure::Failure};

const MOST: u64 = 1 << 20;

/// The lines of `path` that set or copy a variable.
pub(super) fn read(path: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let failed = |why: String| {
        let what = format!("could not read the variables in `{}`", shown(path));
        Failure::new(Code::Share, what).because(why)
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    file.take(MOST + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    if MOST < u64::try_from(bytes.len()).unwrap_or(u64::MAX) {
        return Err(failed("it is longer than 1 MiB".to_owned()));
    }
    Ok(lines(&bytes))
}

fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let lines = bytes.split(|&it| it == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line).trim_ascii_start());
    lines
        .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
        .map(<[u8]>::to_vec)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn values_are_taken_as_they_are() {
        let text = b"\xef\xbb\xbf# comment\nA=1 # no comment\n\n  B='quoted'\r\nC\nD=\xff\n";
        let expected: [&[u8]; 4] = [b"A=1 # no comment", b"B='quoted'", b"C", b"D=\xff"];
        assert_eq!(lines(text), expected);
    }
}
