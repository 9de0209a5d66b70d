//! The gateway on real sockets: every way in, against every trick.

#[cfg(test)]
mod budgets;
#[cfg(test)]
mod dns;
#[cfg(test)]
mod generated;
#[cfg(test)]
mod http;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod live;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod terminated;
#[cfg(test)]
mod threats;
#[cfg(test)]
mod tunnels;
#[cfg(test)]
mod upstream;
#[cfg(test)]
mod ways;
