//! Who the process is.

use super::super::rule::Rule;
use super::rules;

/// Without capabilities these move only between ids that the process has; with those of an image
/// that wants root inside, between ids that are mapped away from the host's.
pub(super) const ALLOWED: &[Rule] = rules! {
    ALLOW;
    SYS_getuid: "Asks for the user.";
    SYS_geteuid: "Asks for the effective user.";
    SYS_getgid: "Asks for the group.";
    SYS_getegid: "Asks for the effective group.";
    SYS_getgroups: "Asks for the supplementary groups.";
    SYS_getresuid: "Asks for all three users.";
    SYS_getresgid: "Asks for all three groups.";
    SYS_setuid: "Changes user, as far as the sandbox's ids reach.";
    SYS_setgid: "Changes group, as far as the sandbox's ids reach.";
    SYS_setreuid: "Changes user, as far as the sandbox's ids reach.";
    SYS_setregid: "Changes group, as far as the sandbox's ids reach.";
    SYS_setresuid: "Changes user, as far as the sandbox's ids reach.";
    SYS_setresgid: "Changes group, as far as the sandbox's ids reach.";
    SYS_setfsuid: "Changes the user for files, as far as the sandbox's ids reach.";
    SYS_setfsgid: "Changes the group for files, as far as the sandbox's ids reach.";
    SYS_setgroups: "Changes groups, as far as the sandbox's ids reach.";
    SYS_capget: "Asks for capabilities.";
    SYS_capset: "Gives up capabilities; no_new_privs and the bounding set hold.";
};
