//! Which system calls the programs of a plan may make.

use bulkhead_linux::seccomp::Profile;
use bulkhead_policy::Plan;
use bulkhead_spec::Syscalls;

pub(crate) fn profile(plan: &Plan) -> Profile {
    match plan.syscalls() {
        Syscalls::Standard => Profile::Standard,
        Syscalls::Debug => Profile::Debug,
    }
}
