//! Hosts, rules and paths: whatever is read reads back as itself.
#![cfg_attr(fuzzing, no_main)]

use bulkhead_spec::{Host, RequestPath, Rule};

fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(host) = text.parse::<Host>() {
        assert_eq!(host.to_string().parse(), Ok(host));
    }
    if let Ok(rule) = text.parse::<Rule>() {
        assert_eq!(rule.to_string().parse(), Ok(rule));
    }
    if let Ok(path) = text.parse::<RequestPath>() {
        assert_eq!(path.as_str().parse(), Ok(path));
    }
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check(bytes));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    for file in std::env::args_os().skip(1) {
        check(&std::fs::read(file)?);
    }
    Ok(())
}
