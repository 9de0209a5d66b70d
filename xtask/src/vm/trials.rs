//! What `cargo xtask vm test` runs.
//!
//! To have a crate's tests run in the guest, or to try something with the `bulkhead` binary there, add
//! a line to [`TRIALS`].

use super::job::{Scope, User};

/// One thing to try in the guest.
pub(super) struct Trial {
    pub(super) name: &'static str,
    pub(super) what: What,
    /// Everyone as whom it is tried, each in a session of their own.
    pub(super) turns: &'static [Turn],
}

/// What is tried.
pub(super) enum What {
    /// Every test binary of the package of the trial's name.
    TestsOfPackage(Pace),
    /// A shell script, started in the user's home with `set -eu`; it fails by failing.
    Script(&'static str),
    /// The same, with the release binary `bulkhead` installed.
    BulkheadScript(&'static str),
}

/// How many tests of a binary run at a time.
#[derive(Clone, Copy)]
pub(super) enum Pace {
    /// As many as the guest has processors.
    Together,
    /// One, where tests hold a program to a time: the guest's processors are ten times slower.
    OneByOne,
}

/// One way to try it.
pub(super) struct Turn {
    pub(super) user: User,
    pub(super) scope: Scope,
    /// Tests that have no place in this turn, by a part of their name. For scripts: nothing.
    pub(super) except: &'static [&'static str],
}

impl Turn {
    /// How the turn is told from the others.
    pub(super) fn name(&self) -> String {
        match self.scope {
            Scope::Session => self.user.name().to_owned(),
            Scope::Delegated => format!("{} in a delegated scope", self.user.name()),
        }
    }
}

const AS_ROOT: Turn = Turn { user: User::Root, scope: Scope::Session, except: &[] };

const AS_TESTER: Turn = Turn { user: User::Tester, scope: Scope::Session, except: &[] };

const BOTH: &[Turn] = &[AS_ROOT, AS_TESTER];

/// Tries what Landlock can do since Linux 6.12, and fails on less; the guest has Linux 6.1.
const NEW_LANDLOCK: &str = "landlock::only_what_is_listed_can_be_changed";

/// All trials. Those of root run first.
pub(super) const TRIALS: &[Trial] = &[
    Trial {
        name: "the session is what a laptop has",
        what: What::Script(SESSION),
        turns: BOTH,
    },
    Trial {
        name: "the user manager delegates a scope that binds",
        what: What::Script(DELEGATION),
        turns: BOTH,
    },
    Trial {
        name: "the command runs and its limits bind",
        what: What::BulkheadScript(COMMAND),
        turns: BOTH,
    },
    Trial {
        name: "bulkhead",
        what: What::TestsOfPackage(Pace::OneByOne),
        // What differs for root is in the backends and below, where it is tried.
        turns: &[Turn {
            user: User::Tester,
            scope: Scope::Session,
            // Toolchains that would triple the size of the guest.
            except: &["work::build::rust", "work::managed::java", "node"],
        }],
    },
    Trial {
        name: "bulkhead-engine",
        what: What::TestsOfPackage(Pace::OneByOne),
        turns: &[AS_TESTER],
    },
    Trial {
        name: "bulkhead-backends",
        what: What::TestsOfPackage(Pace::Together),
        turns: BOTH,
    },
    Trial {
        name: "bulkhead-linux",
        what: What::TestsOfPackage(Pace::Together),
        turns: &[
            Turn {
                user: User::Root,
                scope: Scope::Session,
                // Slow, and the filter is the same whoever it filters: the other turn has them.
                except: &["seccomp::work", NEW_LANDLOCK],
            },
            Turn {
                user: User::Tester,
                scope: Scope::Delegated,
                except: &[
                    // Root hands something over to somebody.
                    "cgroup::tests::rights",
                    NEW_LANDLOCK,
                    // Toolchains that would triple the size of the guest.
                    "seccomp::work::cargo_works",
                    "seccomp::work::java_works",
                    "seccomp::work::node_works",
                ],
            },
        ],
    },
];

/// The doctor finds what a fresh machine offers, and a limit that it promises ends the program.
const COMMAND: &str = r#"
mkdir -p work
cd work
bulkhead doctor
bulkhead run -- true
code=0
bulkhead run --memory 64m --report report.json -- python3 -c 'bytearray(256 << 20)' || code=$?
cat report.json
test "$code" = 137
grep -q '"kind": "out_of_memory"' report.json
"#;

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
