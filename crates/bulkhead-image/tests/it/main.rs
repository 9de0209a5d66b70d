//! Images: what is made of a project's files, and what is refused.

#[cfg(test)]
mod devcontainer;
#[cfg(test)]
mod project;
#[cfg(test)]
mod pulling;
#[cfg(test)]
mod review;
