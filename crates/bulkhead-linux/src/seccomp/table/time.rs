//! Clocks and timers, to read and to wait on.

use super::super::rule::Rule;
use super::rules;

/// None of these changes a clock.
pub(super) const ALLOWED: &[Rule] = rules! {
    ALLOW;
    SYS_clock_gettime: "Reads a clock.";
    SYS_clock_getres: "Asks how fine a clock is.";
    SYS_clock_nanosleep: "Sleeps.";
    SYS_gettimeofday: "Reads the clock.";
    SYS_nanosleep: "Sleeps.";
    SYS_times: "Asks for processor time.";
    SYS_getitimer: "Asks for an own timer.";
    SYS_setitimer: "Sets an own timer; profilers do.";
    SYS_timer_create: "Makes an own timer.";
    SYS_timer_settime: "Sets an own timer.";
    SYS_timer_gettime: "Asks for an own timer.";
    SYS_timer_getoverrun: "Asks how often an own timer was late.";
    SYS_timer_delete: "Removes an own timer.";
    SYS_timerfd_create: "Makes a timer to wait on; async runtimes do.";
    SYS_timerfd_settime: "Sets a timer to wait on.";
    SYS_timerfd_gettime: "Asks for a timer to wait on.";
};
