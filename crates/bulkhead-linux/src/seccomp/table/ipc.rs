//! System V and POSIX objects between processes.

use super::super::rule::Rule;
use super::rules;

/// The sandbox has an IPC namespace of its own, and what is left in it goes with it.
pub(super) const ALLOWED: &[Rule] = rules! {
    ALLOW;
    SYS_shmget: "Makes shared memory; databases and X clients do.";
    SYS_shmat: "Maps shared memory.";
    SYS_shmdt: "Unmaps shared memory.";
    SYS_shmctl: "Asks for or removes shared memory.";
    SYS_semget: "Makes a set of semaphores.";
    SYS_semop: "Uses semaphores.";
    SYS_semtimedop: "Uses semaphores, not for ever.";
    SYS_semctl: "Asks for or removes semaphores.";
    SYS_msgget: "Makes a message queue.";
    SYS_msgsnd: "Sends to a message queue.";
    SYS_msgrcv: "Receives from a message queue.";
    SYS_msgctl: "Asks for or removes a message queue.";
    SYS_mq_open: "Opens a POSIX queue.";
    SYS_mq_unlink: "Removes a POSIX queue.";
    SYS_mq_timedsend: "Sends to a POSIX queue.";
    SYS_mq_timedreceive: "Receives from a POSIX queue.";
    SYS_mq_notify: "Asks to be told of a message.";
    SYS_mq_getsetattr: "Asks for or sets a POSIX queue's flags.";
};
