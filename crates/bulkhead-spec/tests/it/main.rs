//! The words: what they accept, how they print, what they serialise to.

#[cfg(test)]
mod asks;
#[cfg(test)]
mod bytes;
#[cfg(test)]
mod cpus;
#[cfg(test)]
mod duration;
#[cfg(test)]
mod egress;
#[cfg(test)]
mod ending;
#[cfg(test)]
mod escape;
#[cfg(test)]
mod guarantee;
#[cfg(test)]
mod image;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod paths;
#[cfg(test)]
mod records;
#[cfg(test)]
mod secret;
