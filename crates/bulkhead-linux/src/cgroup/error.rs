//! What can go wrong with a cgroup, always with the file it went wrong at.

use std::io;
use std::path::PathBuf;

use super::Feature;

/// Why a cgroup could not be made, bounded, read or ended.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// The id would not be one plain directory name.
    #[error("`{0}` cannot name a cgroup: it takes 1 to 64 letters, digits, `-` and `_`")]
    Name(String),
    /// A limit was asked for that no cgroup within our rights can hold.
    #[error("no cgroup that this process may use holds {0}")]
    Unheld(Feature),
    /// A directory could not be made or locked.
    #[error("could not make the cgroup `{}`", path.display())]
    Make {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel refused a value.
    #[error("could not write `{value}` to `{}`", path.display())]
    Write {
        /// The control file.
        path: PathBuf,
        /// What was to be written.
        value: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A control file could not be read.
    #[error("could not read `{}`", path.display())]
    Read {
        /// The control file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Processes did not die, or did not freeze, in the time that is given to them.
    #[error("processes in `{}` did not obey in time", path.display())]
    Stuck {
        /// The cgroup that still has them.
        path: PathBuf,
    },
}
