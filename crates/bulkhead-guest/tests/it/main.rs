//! The guest and the stream to it, as the other side sees them.

#[cfg(test)]
mod guest;
#[cfg(test)]
mod protocol;
#[cfg(test)]
mod wire;
