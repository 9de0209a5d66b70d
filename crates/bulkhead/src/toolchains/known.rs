//! The toolchains that people keep under their homes, as a table.

use std::{
    fs,
    path::{Path, PathBuf},
};

use bulkhead_spec::Access::{self, Private, ReadOnly};

use super::{Search, Toolchains};

/// One kind of toolchain.
struct Known {
    /// The variable that says where it is.
    variable: Option<&'static str>,
    /// Where it is otherwise, below the home.
    root: &'static str,
    /// What makes it wanted.
    wanted: Wanted,
    /// What of it is shared, below its root; the whole if empty.
    shared: &'static [(&'static str, Access)],
}

/// What makes a toolchain wanted.
enum Wanted {
    /// This directory below its root, or something below that, is on the PATH.
    OnPath(&'static str),
    /// A program of this name is somewhere on the PATH.
    Program(&'static str),
}

use Wanted::{OnPath, Program};

/// What is not named here stays hidden, above all `credentials*` of cargo, `.npmrc` and `.pypirc`.
#[rustfmt::skip]
const KNOWN: &[Known] = &[
    // Rust. The caches are written to, and an index that an agent wrote must not reach the host.
    Known { variable: Some("CARGO_HOME"), root: ".cargo", wanted: OnPath("bin"), shared: &[("bin", ReadOnly)] },
    Known { variable: Some("CARGO_HOME"), root: ".cargo", wanted: Program("cargo"), shared: &[("registry", Private), ("git", Private)] },
    Known { variable: Some("RUSTUP_HOME"), root: ".rustup", wanted: Program("rustup"), shared: &[] },
    // Python.
    Known { variable: Some("PYENV_ROOT"), root: ".pyenv", wanted: OnPath(""), shared: &[] },
    Known { variable: None, root: ".local/lib", wanted: Program("python3"), shared: &[("python3.9", ReadOnly), ("python3.10", ReadOnly), ("python3.11", ReadOnly), ("python3.12", ReadOnly), ("python3.13", ReadOnly), ("python3.14", ReadOnly), ("python3.15", ReadOnly)] },
    // JavaScript.
    Known { variable: Some("NVM_DIR"), root: ".nvm", wanted: OnPath("versions"), shared: &[("versions", ReadOnly)] },
    Known { variable: None, root: ".npm-global", wanted: OnPath("bin"), shared: &[("bin", ReadOnly), ("lib", ReadOnly)] },
    Known { variable: None, root: ".npm-packages", wanted: OnPath("bin"), shared: &[("bin", ReadOnly), ("lib", ReadOnly)] },
    Known { variable: Some("VOLTA_HOME"), root: ".volta", wanted: OnPath("bin"), shared: &[("bin", ReadOnly), ("tools", ReadOnly)] },
    Known { variable: Some("BUN_INSTALL"), root: ".bun", wanted: OnPath("bin"), shared: &[("bin", ReadOnly), ("install/global", ReadOnly)] },
    Known { variable: None, root: ".deno", wanted: OnPath("bin"), shared: &[("bin", ReadOnly)] },
    // Go.
    Known { variable: Some("GOPATH"), root: "go", wanted: OnPath("bin"), shared: &[("bin", ReadOnly)] },
    Known { variable: Some("GOPATH"), root: "go", wanted: Program("go"), shared: &[("pkg/mod", Private)] },
    Known { variable: None, root: "sdk", wanted: OnPath(""), shared: &[] },
    // Java, Ruby, and those that manage several.
    Known { variable: Some("SDKMAN_DIR"), root: ".sdkman", wanted: OnPath("candidates"), shared: &[("candidates", ReadOnly)] },
    Known { variable: Some("RBENV_ROOT"), root: ".rbenv", wanted: OnPath(""), shared: &[] },
    Known { variable: None, root: ".local/share/mise", wanted: OnPath(""), shared: &[("installs", ReadOnly), ("shims", ReadOnly)] },
];

/// Variables that lead into a toolchain, passed on where they lead to something that is there.
const LEADS: [&str; 2] = ["JAVA_HOME", "GOROOT"];

/// Shares every known toolchain that is wanted.
pub(super) fn share(search: &Search<'_>, found: &mut Toolchains) {
    for known in KNOWN {
        let Some(root) = root(search, known) else { continue };
        let wanted = match known.wanted {
            OnPath(dir) => search.is_on_path(&root.join(dir)),
            Program(name) => root.is_dir() && search.has(name),
        };
        if !wanted || !is_apart(search, &root) {
            continue;
        }
        if known.shared.is_empty() {
            found.share(&root, ReadOnly);
        }
        for (part, access) in known.shared {
            found.share(&root.join(part), *access);
        }
        if let Some(variable) = known.variable {
            if variable == "CARGO_HOME" {
                share_cargo_config(&root, found);
            }
            found.env.insert(variable.into(), root.into());
        }
    }
    for name in LEADS {
        if let Some(dir) = search.environment.dir(name)
            && (found.shows(&dir) || super::is_system(&dir))
        {
            found.env.insert(name.into(), dir.into());
        }
    }
}

/// Where the toolchain is: what its variable says, else its place below the home.
fn root(search: &Search<'_>, known: &Known) -> Option<PathBuf> {
    let named = known.variable.and_then(|variable| search.environment.dir(variable));
    named.or_else(|| search.home.map(|home| home.join(known.root)))
}

/// Whether `root` is there and is not a place that holds the home itself.
fn is_apart(search: &Search<'_>, root: &Path) -> bool {
    let real = bulkhead_linux::paths::real(root);
    real.is_ok_and(|real| !search.holds_home(&real) && !search.holds_home(root))
}

/// Cargo's settings say where sources come from, but older ones may hold a token: then they stay
/// outside, like `credentials.toml`.
fn share_cargo_config(root: &Path, found: &mut Toolchains) {
    let suspicious = ["token", "secret", "password", "credential", "@"];
    for name in ["config.toml", "config"] {
        let path = root.join(name);
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let lower = text.to_ascii_lowercase();
        if !suspicious.iter().any(|word| lower.contains(word)) {
            found.share(&path, ReadOnly);
        }
    }
}
