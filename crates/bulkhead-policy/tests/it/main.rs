//! The policy: what is asked, and what it answers.

#[cfg(test)]
mod admitting;
#[cfg(test)]
mod ask;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod egress;
#[cfg(test)]
mod environment;
#[cfg(test)]
mod narrowing;
#[cfg(test)]
mod triggers;
