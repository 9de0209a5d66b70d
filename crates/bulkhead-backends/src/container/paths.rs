//! Where a daemon sees the files of this host.
//!
//! A daemon in a virtual machine sees some of the host's directories, at paths of its own. Which
//! and where is data: a table of prefixes, the longest of which holds.

use std::fmt;

/// One directory of the host, and where the daemon sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    host: String,
    daemon: String,
}

/// How paths of the host are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// `/a/b`, in which case matters.
    Unix,
    /// `C:\a\b` or `C:/a/b`, in which it does not for the letter.
    Windows,
}

/// Which directories of the host a daemon sees, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Paths {
    style: Style,
    rows: Vec<Row>,
}

/// A path of the host that the daemon does not see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the daemon does not see it; it sees {seen}")]
pub(super) struct Unseen {
    seen: String,
}

impl Paths {
    /// A daemon on this machine: every path is the same.
    pub(super) fn same() -> Self {
        Self::table(Style::Unix, &[("/", "/")])
    }

    /// Docker Desktop on a Mac with its usual file sharing.
    pub(super) fn mac() -> Self {
        let same = |it| (it, it);
        Self::table(
            Style::Unix,
            &["/Users", "/Volumes", "/private", "/tmp", "/var/folders"].map(same),
        )
    }

    /// Docker Desktop on Linux, whose machine sees homes.
    pub(super) fn linux() -> Self {
        Self::table(Style::Unix, &[("/home", "/home")])
    }

    /// Docker Desktop on Windows, where drives are mounted in its machine by letter.
    pub(super) fn windows() -> Self {
        let drives: Vec<(String, String)> = ('a'..='z')
            .map(|letter| (format!("{letter}:"), format!("/run/desktop/mnt/host/{letter}")))
            .collect();
        let rows: Vec<(&str, &str)> =
            drives.iter().map(|(host, daemon)| (host.as_str(), daemon.as_str())).collect();
        Self::table(Style::Windows, &rows)
    }

    pub(super) fn table(style: Style, rows: &[(&str, &str)]) -> Self {
        let mut rows: Vec<Row> = rows
            .iter()
            .map(|(host, daemon)| Row {
                host: trimmed(&style.plain(host)),
                daemon: trimmed(daemon),
            })
            .collect();
        rows.sort_by_key(|it| std::cmp::Reverse(it.host.len()));
        Self { style, rows }
    }

    /// Where the daemon sees `path`.
    pub(super) fn of(&self, path: &str) -> Result<String, Unseen> {
        let path = trimmed(&self.style.plain(path));
        let below = |row: &Row| {
            let rest = path.strip_prefix(&row.host)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{}{rest}", row.daemon))
        };
        let found = self.rows.iter().find_map(below);
        let found = found.map(|it| if it.is_empty() { "/".to_owned() } else { it });
        found.ok_or_else(|| Unseen { seen: self.to_string() })
    }
}

impl Style {
    /// With slashes, and the letter of a drive in lower case.
    fn plain(self, path: &str) -> String {
        match self {
            Self::Unix => path.to_owned(),
            Self::Windows => {
                let path = path.replace('\\', "/");
                match path.split_once(':') {
                    Some((drive, rest)) if drive.len() == 1 => {
                        format!("{}:{rest}", drive.to_ascii_lowercase())
                    }
                    Some(_) | None => path,
                }
            }
        }
    }
}

/// Without a slash at the end; the root is empty.
fn trimmed(path: &str) -> String {
    path.trim_end_matches('/').to_owned()
}

impl fmt::Display for Paths {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<&str> = self.rows.iter().map(|it| it.host.as_str()).collect();
        names.sort_unstable();
        out.write_str(&names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::{Paths, Style};

    fn check(paths: &Paths, rows: &[(&str, Option<&str>)]) {
        for (host, daemon) in rows {
            assert_eq!(paths.of(host).ok().as_deref(), *daemon, "{host}");
        }
    }

    #[test]
    fn here_every_path_is_the_same() {
        check(
            &Paths::same(),
            &[("/", Some("/")), ("/work/a b", Some("/work/a b")), ("/a:b", Some("/a:b"))],
        );
    }

    #[test]
    fn a_mac_shares_some_directories() {
        check(
            &Paths::mac(),
            &[
                ("/Users/ann/code", Some("/Users/ann/code")),
                ("/private/tmp/x", Some("/private/tmp/x")),
                ("/Usersbob/code", None),
                ("/opt/homebrew", None),
            ],
        );
    }

    #[test]
    fn windows_has_drives() {
        check(
            &Paths::windows(),
            &[
                (r"C:\Users\ann\code", Some("/run/desktop/mnt/host/c/Users/ann/code")),
                ("d:/code", Some("/run/desktop/mnt/host/d/code")),
                (r"\\server\share", None),
            ],
        );
    }

    #[test]
    fn the_longest_prefix_holds() {
        let paths = Paths::table(Style::Unix, &[("/home", "/h"), ("/home/ann", "/ann")]);
        check(
            &paths,
            &[("/home/ann/x", Some("/ann/x")), ("/home/anna", Some("/h/anna")), ("/etc", None)],
        );
        assert_eq!(
            paths.of("/etc").unwrap_err().to_string(),
            "the daemon does not see it; it sees /home, /home/ann"
        );
    }
}
