//! The system-call filter: its table, its program, and the kernel's reading of both.

mod attacks;
mod attempt;
mod modes;
mod program;
mod table;
mod work;
