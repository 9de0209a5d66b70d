//! A real guest, without walls, over everything that can carry a link.

#[cfg(test)]
mod channels;
#[cfg(test)]
mod doors;
#[cfg(test)]
mod files;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod house;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod slips;
