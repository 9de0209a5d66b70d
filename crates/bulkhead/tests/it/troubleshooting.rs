//! `docs/troubleshooting.md` has an entry for every error that names Docker, Podman or a daemon.
//!
//! The errors are read from the sources, so that a new one fails here until somebody has written
//! what to do about it.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where errors of daemons are.
const SOURCES: [&str; 4] = [
    "bulkhead-backends/src/container",
    "bulkhead-backends/src/container.rs",
    "bulkhead-backends/src/error.rs",
    "bulkhead-image/src",
];

fn sources(path: &Path, found: &mut Vec<PathBuf>) {
    if !path.is_dir() {
        found.push(path.to_owned());
        return;
    }
    for entry in fs::read_dir(path).unwrap() {
        sources(&entry.unwrap().path(), found);
    }
}

/// What of `text` stands between each `from` and the next `to`.
fn between<'a>(text: &'a str, from: &str, to: &str) -> Vec<&'a str> {
    text.split(from).skip(1).filter_map(|it| Some(it.split_once(to)?.0)).collect()
}

/// The longest part of a message that is the same in each.
fn fixed(message: &str) -> &str {
    let parts = message.split('{').filter_map(|it| it.split('}').next_back());
    let parts = parts.map(|it| it.trim_matches([' ', '`', ':', ';']));
    parts.max_by_key(|it| it.len()).unwrap_or_default()
}

/// Every fixed part of a message of a daemon's error, and every verb of one.
fn told() -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for name in SOURCES {
        sources(&crates.join(name), &mut files);
    }
    let mut told = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for error in between(&text, "#[error(", ")]") {
            let named = ["Docker ", "Podman", "daemon", "title()"];
            let message = error.split('"').nth(1).unwrap_or_default();
            if named.iter().any(|it| error.contains(it)) {
                told.push(fixed(message).to_owned());
            }
        }
        if file.to_str().unwrap().contains("/container") {
            let verbs = between(&text, ".failed(\"", "\")");
            told.extend(verbs.iter().map(|it| format!("could not {it}")));
        }
    }
    told.retain(|it| !it.is_empty());
    told
}

#[test]
fn every_error_of_a_daemon_has_an_entry() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/troubleshooting.md");
    // Lines end where there was no more room.
    let docs = fs::read_to_string(docs).unwrap().replace('\n', " ");
    let told = told();
    assert!(15 < told.len(), "{told:?}");
    let missing: Vec<&String> = told.iter().filter(|it| !docs.contains(it.as_str())).collect();
    assert!(missing.is_empty(), "no entry for {missing:#?}");
}
