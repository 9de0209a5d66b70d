//! What runs inside: own scripts, part of this program, given to the room when they are needed.

use std::ffi::OsString;

use serde_json::json;

/// The program that reads the scripts and becomes the supervisor.
pub(super) fn argv() -> Vec<OsString> {
    ["python3", "-c", include_str!("inside/bootstrap.py")].map(OsString::from).to_vec()
}

/// What it reads first: a length on a line, then all scripts by name.
pub(super) fn opening() -> Vec<u8> {
    let scripts = json!({
        "display": include_str!("inside/display.py"),
        "magic": include_str!("inside/magic.py"),
        "python": include_str!("inside/python.py"),
        "supervisor": include_str!("inside/supervisor.py"),
        "figures": include_str!("inside/figures.py"),
        "node": include_str!("inside/node.cjs"),
        "bash": include_str!("inside/bash.sh"),
    });
    let scripts = scripts.to_string();
    format!("{}\n{scripts}", scripts.len()).into_bytes()
}
