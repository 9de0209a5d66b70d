//! What somebody wants shared with a sandbox, as they wrote it.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::PathBuf,
};

use bulkhead_spec::{Access, escape_bytes};

/// `SRC[:DST][:ro|:rw|:private]`, not yet looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// The file or directory, as written.
    pub(crate) from: PathBuf,
    /// Where the sandbox sees it, as written; at its own path if not said.
    pub(crate) to: Option<PathBuf>,
    /// What the sandbox may do with it; read and write, as with Docker, if not said.
    pub(crate) access: Access,
}

/// A text that does not say what to share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` does not say what to share; write `SRC`, `SRC:DST` or `SRC:DST:ro`")]
pub(crate) struct InvalidShare(String);

impl Share {
    /// Reads `SRC[:DST][:ro|:rw|:private]`, or Docker's `type=bind,source=SRC,target=DST,readonly`.
    pub(crate) fn parse(text: &OsStr) -> Result<Self, InvalidShare> {
        if text.as_bytes().starts_with(b"type=") {
            return Self::parse_long(text);
        }
        let invalid = || InvalidShare(escape_bytes(text.as_bytes()));
        let mut parts: Vec<&[u8]> = text.as_bytes().split(|&it| it == b':').collect();
        let named = parts.last().copied().and_then(access);
        if named.is_some() {
            parts.pop();
        }
        let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
        let (from, to) = match parts.as_slice() {
            [from] => (*from, None),
            [from, to] => (*from, Some(*to)),
            _ => return Err(invalid()),
        };
        if from.is_empty() || to.is_some_and(<[u8]>::is_empty) {
            return Err(invalid());
        }
        let access = named.unwrap_or(Access::ReadWrite);
        Ok(Self { from: path(from), to: to.map(path), access })
    }

    fn parse_long(text: &OsStr) -> Result<Self, InvalidShare> {
        let invalid = || InvalidShare(escape_bytes(text.as_bytes()));
        let path = |bytes: &[u8]| Some(PathBuf::from(OsString::from_vec(bytes.to_vec())));
        let (mut from, mut to, mut access) = (None, None, Access::ReadWrite);
        for part in text.as_bytes().split(|&it| it == b',') {
            let at = part.iter().position(|&it| it == b'=').unwrap_or(part.len());
            let (name, value) = part.split_at_checked(at).unwrap_or((part, b""));
            let value = value.get(1..).unwrap_or_default();
            match (name, value) {
                (b"type", b"bind") => {}
                (b"source" | b"src", path_of @ [_, ..]) => from = path(path_of),
                (b"target" | b"dst" | b"destination", path_of @ [_, ..]) => to = path(path_of),
                (b"readonly" | b"ro", b"" | b"true") => access = Access::ReadOnly,
                _ => return Err(invalid()),
            }
        }
        Ok(Self { from: from.ok_or_else(invalid)?, to, access })
    }

    /// How it would be written.
    pub(crate) fn written(&self) -> String {
        let shown = |path: &PathBuf| escape_bytes(path.as_os_str().as_bytes());
        let to = self.to.as_ref().map(|to| format!(":{}", shown(to))).unwrap_or_default();
        format!("{}{to}:{}", shown(&self.from), word(self.access))
    }
}

fn access(word: &[u8]) -> Option<Access> {
    match word {
        b"ro" => Some(Access::ReadOnly),
        b"rw" => Some(Access::ReadWrite),
        b"private" => Some(Access::Private),
        _ => None,
    }
}

/// The word for `access` in flags and files.
pub(crate) fn word(access: Access) -> &'static str {
    match access {
        Access::ReadOnly => "ro",
        Access::ReadWrite => "rw",
        Access::Private => "private",
    }
}

#[cfg(test)]
mod tests {
    use super::Share;

    #[test]
    fn what_is_written_is_what_is_shared() {
        let read = |text: &str| Share::parse(text.as_ref()).map(|it| it.written());
        let cases = ["/a", "/a:/b", "/a:ro", "/a:/b:private", "/a:/b:rw"].map(read);
        let expected = ["/a:rw", "/a:/b:rw", "/a:ro", "/a:/b:private", "/a:/b:rw"];
        assert_eq!(cases, expected.map(|it| Ok(it.to_owned())));
        let long = read("type=bind,source=/a,target=/b,readonly");
        assert_eq!(long, Ok("/a:/b:ro".to_owned()));
        for wrong in ["type=volume,source=a,target=/b", "type=bind,target=/b", "type=bind,src="]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", ":", "/a:", ":/b", "/a:/b:/c", "/a:/b:exec"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
