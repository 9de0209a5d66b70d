//! What a SOCKS client wants: whatever is read reads back as itself.
#![cfg_attr(fuzzing, no_main)]

fn check(bytes: &[u8]) {
    if let Some(read) = bulkhead_egress::fuzzing::socks(bytes) {
        assert_eq!(bulkhead_egress::fuzzing::authority(&read), Some(read));
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
