use std::time::Duration;

use bulkhead_spec::{Bytes, Ending, Span};

#[test]
fn a_shell_knows_each_ending_by_its_code() {
    let limit = Span(Duration::from_secs(5));
    let cases = [
        (Ending::Exited { code: 0 }, 0),
        (Ending::Exited { code: 3 }, 3),
        (Ending::Exited { code: 255 }, 255),
        (Ending::Exited { code: 256 }, 0),
        (Ending::Exited { code: -1 }, 255),
        (Ending::Signaled { signal: 9 }, 137),
        (Ending::Signaled { signal: 11 }, 139),
        (Ending::Signaled { signal: 64 }, 192),
        (Ending::TimedOut { limit }, 124),
        (Ending::CpuTimeExceeded { limit }, 124),
        (Ending::OutOfMemory { limit: Some(Bytes(1 << 20)) }, 137),
        (Ending::OutOfMemory { limit: None }, 137),
        (Ending::DiskFull { limit: None }, 1),
        (Ending::OutputLimit { limit: Bytes(1) }, 1),
        (Ending::Canceled { signal: 2 }, 130),
        (Ending::Canceled { signal: 15 }, 143),
        (Ending::Lost, 125),
    ];
    for (ending, code) in cases {
        assert_eq!(ending.exit_code(), code, "{ending:?}");
    }
}
