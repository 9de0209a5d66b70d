//! Builds the guest, so that it can be carried inside whatever links this crate.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Crates that the guest is made of; a change in one of them makes a new guest.
const SOURCES: [&str; 2] = ["../bulkhead-guest", "../bulkhead-linux"];

fn main() -> Result<(), String> {
    let out = PathBuf::from(variable("OUT_DIR")?);
    let arch = variable("CARGO_CFG_TARGET_ARCH")?;
    let target = format!("{arch}-unknown-linux-musl");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}/src");
        println!("cargo::rerun-if-changed={source}/Cargo.toml");
    }
    println!("cargo::rerun-if-changed=../../Cargo.lock");

    let dir = out.join("guest");
    build(&target, &dir)?;
    let guest = dir.join(&target).join("guest").join("bulkhead-guest");
    std::fs::copy(&guest, out.join("bulkhead-guest"))
        .map_err(|error| format!("could not copy {}: {error}", guest.display()))?;
    let content = std::fs::read(&guest)
        .map_err(|error| format!("could not read {}: {error}", guest.display()))?;
    println!("cargo::rustc-env=BULKHEAD_GUEST_VERSION={:016x}", sum(&content));
    Ok(())
}

/// A number that differs with the content (FNV-1a).
fn sum(content: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    content.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[expect(clippy::disallowed_methods, reason = "this is how cargo speaks to a build script")]
fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|_| format!("cargo did not set {name}"))
}

/// A cargo of its own, in a directory of its own: it would wait for ever for the lock of ours.
#[expect(clippy::disallowed_methods, reason = "a build script has no sandbox to run cargo in")]
fn build(target: &str, dir: &Path) -> Result<(), String> {
    let mut cargo = Command::new(variable("CARGO")?);
    cargo
        .args(["build", "--package", "bulkhead-guest", "--bin", "bulkhead-guest", "--locked"])
        .args(["--profile", "guest", "--target", target, "--target-dir"])
        .arg(dir)
        // What the outer build was told about flags and wrappers is not meant for the guest.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env("RUSTFLAGS", "-C relocation-model=static -C target-feature=+crt-static");
    let built = cargo.status().map_err(|error| format!("could not start cargo: {error}"))?;
    if built.success() {
        return Ok(());
    }
    Err(format!(
        "could not build the guest for {target}; if the target is missing: rustup target add {target}"
    ))
}
