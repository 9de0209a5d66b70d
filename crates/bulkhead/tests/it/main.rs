//! The command as a user meets it: its words, its exit codes, what it leaves behind.

#[cfg(test)]
mod agents;
#[cfg(test)]
mod api;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod config;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod daemons;
#[cfg(test)]
mod dockerd;
#[cfg(test)]
mod e2b;
#[cfg(test)]
mod egress;
#[cfg(test)]
mod env;
#[cfg(test)]
mod help;
#[cfg(test)]
mod host;
#[cfg(test)]
mod image;
#[cfg(test)]
mod images;
#[cfg(test)]
mod parting;
mod refusals;
#[cfg(test)]
mod rooms;
#[cfg(test)]
mod run;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod session;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod toolchains;
#[cfg(test)]
mod troubleshooting;
mod trust;
#[cfg(test)]
mod work;
