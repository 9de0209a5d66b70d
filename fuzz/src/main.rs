//! Hostile bytes for whatever reads them. `BULKHEAD_FUZZ` names what is to read.
#![cfg_attr(fuzzing, no_main)]

use bulkhead_backends::fuzzing as backends;
use bulkhead_egress::fuzzing as egress;
use bulkhead_engine::fuzzing as engine;
use bulkhead_server::fuzzing as server;
use bulkhead_spec::fuzzing as spec;

/// Everything that reads what somebody hostile may have written. Each panics if something is not as
/// it must be.
const TARGETS: [(&str, fn(&[u8])); 15] = [
    // The way out, from inside.
    ("host", spec::host),
    ("hello", egress::check_hello),
    ("request", egress::check_request),
    ("socks", egress::check_socks),
    ("question", egress::check_question),
    // The way out, from the world.
    ("answer", egress::check_answer),
    ("usage", egress::check_usage),
    // The way to neighbours.
    ("packet", engine::packet),
    // The guest.
    ("guest", backends::guest),
    ("tree", backends::tree),
    // The doors.
    ("opening", engine::opening),
    ("door", door),
    ("inside", inside),
    ("archive", server::archive),
    ("report", server::report),
];

/// A server without rooms, in a directory of its own.
fn empty() -> &'static server::Empty {
    static EMPTY: std::sync::LazyLock<server::Empty> = std::sync::LazyLock::new(|| {
        let dir = std::env::temp_dir().join(format!("bulkhead-fuzz-{}", std::process::id()));
        server::Empty::at(&dir).expect("a server without rooms")
    });
    &EMPTY
}

fn door(bytes: &[u8]) {
    empty().door(bytes);
}

fn inside(bytes: &[u8]) {
    empty().inside(bytes);
}

fn target(name: &str) -> Option<fn(&[u8])> {
    TARGETS.iter().find(|(it, _)| *it == name).map(|(_, check)| *check)
}

#[cfg(fuzzing)]
fn chosen() -> fn(&[u8]) {
    static CHOSEN: std::sync::OnceLock<fn(&[u8])> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let name = std::env::var("BULKHEAD_FUZZ").unwrap_or_default();
        target(&name).unwrap_or_else(|| panic!("there is no target `{name}`"))
    })
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| chosen()(bytes));

/// Without coverage: the names of all targets, or `TARGET FILE…` to replay what was found.
#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    let mut words = std::env::args_os().skip(1);
    let Some(name) = words.next() else {
        TARGETS.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    };
    let name = name.to_string_lossy().into_owned();
    let check = target(&name).ok_or_else(|| std::io::Error::other(name))?;
    for file in words {
        check(&std::fs::read(file)?);
    }
    Ok(())
}
