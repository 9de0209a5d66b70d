//! How the program is linked.

use std::env;

/// As much as processors map at once, if the file has it in one piece and at a multiple of that.
const HUGE_PAGE: u32 = 2 << 20;

#[expect(clippy::disallowed_methods, reason = "this is how cargo speaks to a build script")]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // For the program that is installed; a start of it would otherwise take a hundred page faults.
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|it| it == "musl") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,max-page-size={HUGE_PAGE}");
    }
}
