//! Rust: the version by `rust-toolchain`, native libraries by `Cargo.lock`.

use toml::Table;

use super::{Fetch, Found, Wanted, words};
use crate::tree::Tree;

/// `-sys` crates that only name what is in every C library, or bring their own pure parts.
const HARMLESS: &[&str] = &[
    "linux-raw-sys",
    "windows-sys",
    "js-sys",
    "web-sys",
    "core-foundation-sys",
    "libc-sys",
    "security-framework-sys",
    "inotify-sys",
    "hermit-sys",
    "wasm-bindgen-sys",
    "dirs-sys",
    "schannel-sys",
    "io-kit-sys",
    "fsevent-sys",
    "objc-sys",
    "iana-time-zone-sys",
];

pub(super) fn find(tree: &Tree) -> Found {
    let (wanted, notes) = version(tree);
    let manifests: Vec<&str> =
        tree.names().filter(|it| *it == "Cargo.toml" || it.ends_with("/Cargo.toml")).collect();
    let lock = tree.has("Cargo.lock");
    // The toolchain file stays out: the image is that toolchain, and rustup would fetch another.
    let mut copy: Vec<String> = manifests.iter().map(|it| (*it).to_owned()).collect();
    copy.extend(lock.then(|| "Cargo.lock".to_owned()));
    let mut notes = notes;
    if !lock {
        notes.push(
            "there is no Cargo.lock, so versions of dependencies are not fixed".to_owned(),
        );
    }
    let mut fetch = words(["cargo", "fetch"]);
    if lock {
        fetch.push("--locked".to_owned());
    }
    let mut run = stand_ins(tree, &manifests);
    run.push(words(["mkdir", "-p", "/opt/cargo"]));
    run.push(fetch);
    // When what was used last: another text each time.
    run.push(words(["rm", "-f", "/opt/cargo/.global-cache"]));
    Found {
        wanted,
        glibc: native(tree),
        base: None,
        fetch: Fetch { copy, run, cache: None, keep: vec![("/opt/cargo", "/opt/cargo")] },
        notes,
    }
}

fn version(tree: &Tree) -> (Wanted, Vec<String>) {
    for file in ["rust-toolchain.toml", "rust-toolchain"] {
        let Some(text) = tree.text(file) else { continue };
        let table: Option<Table> = text.parse().ok();
        let channel =
            table.as_ref().and_then(|it| it.get("toolchain")?.get("channel")?.as_str());
        let channel = channel.unwrap_or(text).trim();
        let numbers = channel.matches('.').count();
        let exact = if numbers == 1 { format!("{channel}.0") } else { channel.to_owned() };
        if let Some(wanted) = Wanted::exact(&exact, file) {
            return (wanted, Vec::new());
        }
        if channel != "stable" {
            let channel = bulkhead_spec::escape(channel);
            let note =
                format!("{file} asks for `{channel}`, which no image has; stable is taken");
            return (Wanted::Any, vec![note]);
        }
    }
    let manifest: Option<Table> = tree.text("Cargo.toml").and_then(|it| it.parse().ok());
    let least = manifest.as_ref().and_then(|it| {
        let package = it.get("package").and_then(|it| it.get("rust-version"));
        let workspace = || it.get("workspace")?.get("package")?.get("rust-version");
        package.and_then(toml::Value::as_str).or_else(|| workspace()?.as_str())
    });
    let wanted = least.and_then(|it| Wanted::range(&format!(">={it}"), "Cargo.toml"));
    (wanted.unwrap_or(Wanted::Any), Vec::new())
}

/// The first dependency with a native library.
fn native(tree: &Tree) -> Option<String> {
    let lock: Table = tree.text("Cargo.lock")?.parse().ok()?;
    let packages = lock.get("package")?.as_array()?;
    let names = packages.iter().filter_map(|it| it.get("name")?.as_str());
    let native = |it: &&str| it.ends_with("-sys") && !HARMLESS.contains(it);
    names
        .into_iter()
        .find(native)
        .map(|it| format!("{} binds a native library", bulkhead_spec::escape(it)))
}

/// Cargo reads no manifest without a target, and the source is not there yet.
fn stand_ins(tree: &Tree, manifests: &[&str]) -> Vec<Vec<String>> {
    let mut files = Vec::new();
    for manifest in manifests {
        let dir = manifest.strip_suffix("Cargo.toml").unwrap_or_default();
        let Some(table) = tree.text(manifest).and_then(|it| it.parse::<Table>().ok()) else {
            continue;
        };
        if table.get("package").is_none() {
            continue;
        }
        let mut paths = vec!["src/lib.rs".to_owned(), "src/main.rs".to_owned()];
        for kind in ["lib", "bin", "test", "bench", "example"] {
            let targets = match table.get(kind) {
                Some(toml::Value::Array(targets)) => targets.iter().collect(),
                Some(target) => vec![target],
                None => Vec::new(),
            };
            paths.extend(targets.iter().filter_map(|it| target_path(it, kind)));
        }
        if table.get("package").and_then(|it| it.get("build")).is_some() {
            paths.push("build.rs".to_owned());
        }
        files.extend(paths.into_iter().map(|it| format!("{dir}{it}")));
    }
    files.retain(|it| super::is_plain(it) && !it.contains(".."));
    files.sort();
    files.dedup();
    let mut dirs: Vec<String> =
        files.iter().filter_map(|it| Some(it.rsplit_once('/')?.0.to_owned())).collect();
    dirs.dedup();
    if files.is_empty() {
        return Vec::new();
    }
    let make = words(["mkdir", "-p"]).into_iter().chain(dirs).collect();
    let touch = words(["touch"]).into_iter().chain(files).collect();
    vec![make, touch]
}

fn target_path(target: &toml::Value, kind: &str) -> Option<String> {
    if let Some(path) = target.get("path") {
        return path.as_str().map(str::to_owned);
    }
    let name = target.get("name")?.as_str()?;
    match kind {
        "bin" => Some(format!("src/bin/{name}.rs")),
        "test" => Some(format!("tests/{name}.rs")),
        "bench" => Some(format!("benches/{name}.rs")),
        "example" => Some(format!("examples/{name}.rs")),
        _ => None,
    }
}
