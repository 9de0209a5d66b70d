//! Limits, and what was used.

use std::time::Duration;

use bulkhead_spec::{
    Bytes, Ending,
    Guarantee::{CpuTimeBounded, DiskBounded, MemoryBounded, ProcessesBounded},
    Limits, Span,
};

use crate::{
    ask::{Ask, sh},
    house::{House, text},
};

const MIB: u64 = 1 << 20;

fn limited(script: &str, limits: Limits) -> Ask {
    sh(script).with(|it| it.spec.limits = limits)
}

fn memory(mebibytes: u64) -> Limits {
    Limits { memory: Some(Bytes(mebibytes * MIB)), ..Limits::default() }
}

fn disk(mebibytes: u64) -> Limits {
    Limits { disk: Some(Bytes(mebibytes * MIB)), ..Limits::default() }
}

#[tokio::test]
async fn processor_time_is_counted_for_all_programs_together() {
    let house = House::new();
    let limit = Span(Duration::from_millis(800));
    let script = "for i in 1 2 3 4; do (while :; do :; done) & done; wait";
    let ask = limited(script, Limits { cpu_time: Some(limit), ..Limits::default() });
    let Some(outcome) = house.held(CpuTimeBounded, ask).await else { return };
    assert_eq!(outcome.ending, Ending::CpuTimeExceeded { limit });
    let used = outcome.usage.cpu.unwrap();
    let tolerated = limit.0 + Duration::from_millis(300);
    assert!((limit.0..tolerated).contains(&used), "{used:?}");
}

#[tokio::test]
async fn a_program_that_waits_uses_no_processor_time() {
    let house = House::new();
    let limit = Span(Duration::from_secs(1));
    let ask = limited("sleep 1.2", Limits { cpu_time: Some(limit), ..Limits::default() });
    let Some(outcome) = house.held(CpuTimeBounded, ask).await else { return };
    assert_eq!(outcome.ending, Ending::Exited { code: 0 });
}

#[tokio::test]
async fn a_program_that_takes_too_much_memory_is_out_of_it() {
    let house = House::new();
    let ask = limited("exec tail /dev/zero", memory(32));
    let Some(outcome) = house.held(MemoryBounded, ask).await else { return };
    assert_eq!(outcome.ending, Ending::OutOfMemory { limit: Some(Bytes(32 * MIB)) });
    assert_eq!(outcome.ending.exit_code(), 137);
    assert!(0 < outcome.usage.oom_kills);
    let peak = outcome.usage.memory_peak.unwrap();
    assert!((Bytes(24 * MIB)..=Bytes(32 * MIB)).contains(&peak), "{peak}");
}

#[tokio::test]
async fn a_shell_that_passes_the_killing_on_is_out_of_memory_too() {
    let house = House::new();
    let ask = limited("tail /dev/zero; exit $?", memory(32));
    let Some(outcome) = house.held(MemoryBounded, ask).await else { return };
    assert_eq!(outcome.ending, Ending::OutOfMemory { limit: Some(Bytes(32 * MIB)) });
}

#[tokio::test]
async fn a_child_out_of_memory_is_counted_and_its_parent_goes_on() {
    let house = House::new();
    let ask = limited("tail /dev/zero; echo \"child: $?\"; exit 5", memory(32));
    let Some(outcome) = house.held(MemoryBounded, ask).await else { return };
    assert_eq!(outcome.ending, Ending::Exited { code: 5 });
    assert_eq!(text(&outcome.stdout), "child: 137\n");
    assert!(0 < outcome.usage.oom_kills);
}

#[tokio::test]
async fn private_files_count_as_memory() {
    let house = House::new();
    let ask = limited("head -c 64M /dev/zero > /tmp/large; echo $?", memory(32));
    let Some(outcome) = house.held(MemoryBounded, ask).await else { return };
    assert!(0 < outcome.usage.oom_kills, "{outcome:?}");
}

#[tokio::test]
async fn a_program_that_fails_on_a_full_disk_says_so() {
    let house = House::new();
    for target in ["/tmp/large", "$HOME/large", "/dev/shm/large", "/var/tmp/large"] {
        let script = format!("HOME=/home/sandbox; head -c 16M /dev/zero > {target} || exit 3");
        let Some(outcome) = house.held(DiskBounded, limited(&script, disk(4))).await else {
            return;
        };
        assert_eq!(
            outcome.ending,
            Ending::DiskFull { limit: Some(Bytes(4 * MIB)) },
            "{target}"
        );
    }
}

#[tokio::test]
async fn a_program_that_copes_with_a_full_disk_has_its_own_code() {
    let house = House::new();
    let script = "head -c 16M /dev/zero > /tmp/large; rm /tmp/large; exit 3";
    let Some(outcome) = house.held(DiskBounded, limited(script, disk(4))).await else { return };
    assert_eq!(outcome.ending, Ending::Exited { code: 3 });
    let script = "head -c 16M /dev/zero > /tmp/large; exit 0";
    let Some(outcome) = house.held(DiskBounded, limited(script, disk(4))).await else { return };
    assert_eq!(outcome.ending, Ending::Exited { code: 0 });
}

#[tokio::test]
async fn files_are_counted_as_well_as_bytes() {
    let house = House::new();
    let script = "i=0; while [ $i -lt 9999 ]; do : > /tmp/$i || exit 3; i=$((i+1)); done";
    let limits = Limits { inodes: Some(100), ..Limits::default() };
    let Some(outcome) = house.held(DiskBounded, limited(script, limits)).await else { return };
    assert_eq!(outcome.ending, Ending::DiskFull { limit: None });
}

#[tokio::test]
async fn a_program_that_starts_too_many_is_refused_more() {
    let house = House::new();
    let limits = Limits { pids: Some(10), ..Limits::default() };
    let script = "i=0; while [ $i -lt 40 ]; do sleep 100 & i=$((i+1)); echo $i; done";
    let ask = limited(script, limits);
    let Some(outcome) = house.held(ProcessesBounded, ask).await else { return };
    // A shell that cannot fork gives up.
    assert_eq!(outcome.ending, Ending::Exited { code: 2 });
    assert_eq!(text(&outcome.stdout).lines().last(), Some("9"), "{}", text(&outcome.stderr));
}

#[tokio::test]
async fn usage_is_what_was_used() {
    let house = House::new();
    let script = "head -c 64M /dev/zero | tail -c 64M >/dev/null; sleep 0.2";
    let usage = house.run(sh(script)).await.unwrap().usage;
    let wall = Duration::from_millis(200)..Duration::from_secs(20);
    assert!(wall.contains(&usage.wall), "{usage:?}");
    let cpu = usage.cpu.unwrap();
    assert!(Duration::from_millis(5) < cpu && cpu < usage.wall * 2, "{usage:?}");
    let peak = usage.memory_peak.unwrap();
    assert!((Bytes(64 * MIB)..Bytes(160 * MIB)).contains(&peak), "{usage:?}");
    assert!(usage.processes_peak.is_none_or(|it| (3..=6).contains(&it)), "{usage:?}");
    assert_eq!((usage.oom_kills, usage.process_refusals), (0, 0));
}
