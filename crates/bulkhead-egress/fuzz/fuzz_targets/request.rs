//! A request with its body: whatever is read has one end.
#![cfg_attr(fuzzing, no_main)]

fn check(bytes: &[u8]) {
    bulkhead_egress::fuzzing::head(bytes);
    let Some((_, body)) = bulkhead_egress::fuzzing::request(bytes) else { return };
    assert!(body.len() <= bytes.len());
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
