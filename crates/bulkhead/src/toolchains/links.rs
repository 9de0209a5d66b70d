//! `~/.local/bin`: programs, and links to where programs were installed.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use bulkhead_spec::Access;

use super::{Search, Toolchains};

/// Where installers put what `~/.local/bin` links to.
const INSTALLED: [&str; 4] = ["share", "lib", "pipx", "uv"];

/// Shares `~/.local/bin`, if it is on the PATH, and of what its links lead to the one version.
pub(super) fn share(search: &Search<'_>, home: &Path, found: &mut Toolchains) {
    let local = home.join(".local");
    let bin = local.join("bin");
    if !search.is_on_path(&bin) || search.holds_home(&bin.canonicalize().unwrap_or_default()) {
        return;
    }
    found.share(&bin, Access::ReadOnly);
    let Ok(entries) = fs::read_dir(&bin) else { return };
    for entry in entries.flatten() {
        if !entry.file_type().is_ok_and(|it| it.is_symlink()) {
            continue;
        }
        if let Some(installed) = installed(&local, &entry.path()) {
            // A virtual environment's own interpreter is a link again.
            let python = self::installed(&local, &installed.join("bin/python"));
            found.share(&installed, Access::ReadOnly);
            if let Some(python) = python {
                found.share(&python, Access::ReadOnly);
            }
        }
    }
}

/// What must be there for the program behind `link` to run: the directory of its one version, or
/// the file alone where its surroundings may hold an application's data.
fn installed(local: &Path, link: &Path) -> Option<PathBuf> {
    let target = link.canonicalize().ok()?;
    let local = local.canonicalize().ok()?;
    let inner = target.strip_prefix(&local).ok()?;
    let mut parts = inner.components().map(Component::as_os_str);
    let base = parts.next()?.to_str().filter(|it| INSTALLED.contains(it))?;
    let below: Vec<_> = parts.collect();
    if base == "lib" && below.first().is_some_and(|it| *it == "node_modules") {
        return Some(local.join("lib/node_modules"));
    }
    let bin = below.iter().rposition(|it| *it == "bin");
    match bin {
        // `share/NAME` itself is where an application keeps its data, tokens included.
        Some(depth) if depth >= 2 || (base == "lib" && depth >= 1) => {
            Some(below.iter().take(depth).fold(local.join(base), |path, part| path.join(part)))
        }
        Some(_) | None => Some(target),
    }
}
