//! What `cargo xtask vm test` runs.
//!
//! To have a crate's tests run in the guest, or to try something with the `bulkhead` binary there, add
//! a line to [`TRIALS`].

use super::job::User;

/// One thing to try in the guest.
pub(super) struct Trial {
    pub(super) name: &'static str,
    pub(super) what: What,
    /// Everyone as whom it is tried, each in a session of their own.
    pub(super) users: &'static [User],
}

/// What is tried.
pub(super) enum What {
    /// Every test binary of the package of the trial's name.
    TestsOfPackage,
    /// A shell script, started in the user's home with `set -eu`; it fails by failing.
    Script(&'static str),
    /// The same, with the release binary `bulkhead` on its PATH.
    #[expect(dead_code, reason = "the binary has no verb to try yet")]
    BulkheadScript(&'static str),
}

const BOTH: &[User] = &[User::Root, User::Tester];

/// All trials. Those of root run first.
pub(super) const TRIALS: &[Trial] = &[
    Trial {
        name: "the session is what a laptop has",
        what: What::Script(SESSION),
        users: BOTH,
    },
    Trial {
        name: "the user manager delegates a scope that binds",
        what: What::Script(DELEGATION),
        users: BOTH,
    },
    Trial { name: "bulkhead-linux", what: What::TestsOfPackage, users: BOTH },
];

/// Nothing else here means anything if the guest is not the machine that it claims to be.
const SESSION: &str = r#"
test "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs
cat /proc/self/cgroup
grep -q "^0::/user.slice/user-$(id -u).slice/session-.*scope$" /proc/self/cgroup
test -S "$XDG_RUNTIME_DIR/bus"
test "$XDG_SESSION_CLASS" = user
"#;

/// What Bulkhead asks of systemd, asked by systemd's own tool.
const DELEGATION: &str = r#"
code=0
systemd-run --user --scope --quiet -p Delegate=yes -p MemoryMax=64M -p MemorySwapMax=0 \
    python3 -c 'bytearray(256 << 20)' || code=$?
test "$code" = 137
"#;
