//! The engine with a real backend: each test's name is a claim about a program that was run.
//!
//! Everything here passes as root and as an ordinary user. What needs a promise that this host does
//! not let the backend make is tested the other way round: asking for it is refused.

#[cfg(test)]
mod arguments;
#[cfg(test)]
mod ask;
#[cfg(test)]
mod checkpoints;
#[cfg(test)]
mod clients;
#[cfg(test)]
mod control;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod deadlines;
#[cfg(test)]
mod endings;
#[cfg(test)]
mod git;
#[cfg(test)]
mod house;
#[cfg(test)]
mod input;
#[cfg(test)]
mod ledger;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod many;
#[cfg(test)]
mod output;
#[cfg(test)]
mod placing;
#[cfg(test)]
mod pool;
#[cfg(test)]
mod role;
#[cfg(test)]
mod room;
#[cfg(test)]
mod rooms;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod traces;
#[cfg(test)]
mod workspace;
