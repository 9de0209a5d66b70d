//! Versions with known holes: a word of warning, not a refusal, since a distribution may have
//! mended them without changing the number.

use serde::Serialize;

use super::probe::Facts;
use super::{Address, Kernel, Product, runtime::instead};

/// Something about a daemon that its owner should mend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Caution {
    /// What is the matter.
    pub what: String,
    /// What to do.
    pub hint: String,
}

/// The first versions of each line in which the known holes are mended, oldest line first. What is
/// newer than the last line is fine.
struct Gate {
    name: &'static str,
    mended: &'static [[u32; 3]],
    holes: &'static str,
}

const RUNC: Gate = Gate {
    name: "runc",
    mended: &[[1, 3, 6], [1, 4, 3], [1, 5, 0]],
    holes: "ways out of a container (CVE-2025-31133, CVE-2025-52565, CVE-2025-52881 and later ones)",
};
const DOCKER: Gate = Gate {
    name: "Docker",
    mended: &[[29, 5, 1]],
    holes: "ways round its own walls, mended since",
};
const PODMAN: Gate = Gate {
    name: "Podman",
    mended: &[[5, 7, 1]],
    holes: "ways round its own walls, mended since",
};

/// What the owner of the daemon should know.
pub fn cautions(facts: &Facts) -> Vec<Caution> {
    let gate = match facts.product {
        Product::Docker => &DOCKER,
        Product::Podman => &PODMAN,
    };
    let daemon = gate.judge(&facts.version);
    let runc = facts.runc.as_deref().and_then(|version| RUNC.judge(version));
    let warned = facts.warnings.iter().map(|it| Caution {
        what: format!("the daemon warns: {}", bulkhead_spec::escape(it)),
        hint: "see its documentation".to_owned(),
    });
    let remote = match &facts.address {
        Address::Tcp(_) => Some(Caution {
            what: format!(
                "{} is not encrypted, and paths are those of its machine",
                facts.address
            ),
            hint: "use a unix socket".to_owned(),
        }),
        Address::Unix(_) | Address::Foreign { .. } => None,
    };
    let idle = facts.runtimes.get(&facts.default_runtime).and_then(|it| {
        let why = it.refuses?;
        let name = bulkhead_spec::escape(&it.name);
        let what = format!("its own runtime `{name}` starts nothing on this host: {why}");
        Some(Caution { what, hint: instead(facts.product) })
    });
    daemon.into_iter().chain(runc).chain(warned).chain(remote).chain(idle).collect()
}

impl Gate {
    fn judge(&self, version: &str) -> Option<Caution> {
        let numbers = numbers(version)?;
        if self.mended.iter().any(|line| is_mended(numbers, *line, self.mended)) {
            return None;
        }
        let mended =
            self.mended.iter().map(|[major, minor, patch]| format!("{major}.{minor}.{patch}"));
        let mended: Vec<String> = mended.collect();
        let version = bulkhead_spec::escape(version);
        Some(Caution {
            what: format!("{} {version} is known to have {}", self.name, self.holes),
            hint: format!(
                "upgrade to {} {} or newer, or look whether your distribution has mended its own",
                self.name,
                mended.join(", ")
            ),
        })
    }
}

fn is_mended(version: [u32; 3], line: [u32; 3], all: &[[u32; 3]]) -> bool {
    let same_line = |a: [u32; 3], b: [u32; 3]| a[..2] == b[..2];
    let newest = all.iter().max().is_some_and(|it| *it <= version);
    newest || (same_line(version, line) && line <= version)
}

/// The first three numbers of a version.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let start = version.trim_start_matches(|it: char| !it.is_ascii_digit());
    let mut parts = start.split('.').map(|part| {
        let end = part.find(|it: char| !it.is_ascii_digit()).unwrap_or(part.len());
        part.get(..end).and_then(|it| it.parse().ok())
    });
    let major = parts.next()??;
    let mut next = || parts.next().flatten().unwrap_or(0);
    Some([major, next(), next()])
}

impl Facts {
    /// Whose kernel serves programs where nobody names a runtime.
    pub fn default_kernel(&self) -> Kernel {
        self.runtimes.get(&self.default_runtime).map_or(Kernel::Hosts, |it| it.kernel)
    }
}

#[cfg(test)]
mod tests {
    use super::{DOCKER, RUNC, numbers};

    #[test]
    fn old_versions_are_told_from_mended_ones() {
        let bad = |version: &str| RUNC.judge(version).is_some();
        assert!(bad("1.1.5+ds1-1+deb12u1"));
        assert!(bad("1.3.5"));
        assert!(!bad("1.3.6"));
        assert!(bad("1.4.2"));
        assert!(!bad("1.4.3"));
        assert!(!bad("1.5.0-rc.1"));
        assert!(!bad("2.0.0"));
        assert!(DOCKER.judge("20.10.24+dfsg1").is_some());
        assert!(DOCKER.judge("29.5.1").is_none());
        assert!(DOCKER.judge("no version").is_none());
    }

    #[test]
    fn numbers_are_read_from_whatever_stands_round_them() {
        assert_eq!(numbers("v1.2"), Some([1, 2, 0]));
        assert_eq!(numbers("20.10.24+dfsg1"), Some([20, 10, 24]));
        assert_eq!(numbers(""), None);
    }
}
