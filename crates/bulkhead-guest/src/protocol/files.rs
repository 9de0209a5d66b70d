//! The words about files.
//!
//! Paths are bytes: whatever the kernel takes as a name. What is long travels in a channel: the
//! bytes of a file as they are, and lists, trees and changes as frames of [`Record`]s, between
//! which the bytes of a file are frames of data.

use serde::{Deserialize, Serialize};

/// The most file operations that the guest does at once, and the most watches beside them.
pub const MOST_FILE_ORDERS: usize = 16;
/// The most watches at once.
pub const MOST_WATCHES: usize = 8;
/// The most directories of one watch; what is made deeper goes unnoticed, and is said to.
pub const MOST_WATCHED_DIRS: usize = 8192;
/// The longest frame in a channel of records.
pub const MOST_RECORD: usize = 64 << 10;

/// Something to be done with files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileOrder {
    /// How both sides call it.
    pub id: u32,
    /// What is to be done.
    pub ask: Ask,
}

/// What is to be done with files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// What is there?
    Stat {
        /// Where.
        path: Vec<u8>,
        /// Whether a link is asked about, or what it leads to.
        follow: Follow,
    },
    /// Send an [`Record::Entry`] for everything in a directory.
    List {
        /// Which.
        path: Vec<u8>,
        /// How deep; 1 is the directory itself and nothing below its entries.
        depth: u32,
        /// In which channel.
        channel: u32,
    },
    /// Send the bytes of a file.
    Read {
        /// Which.
        path: Vec<u8>,
        /// From where on.
        offset: u64,
        /// How many at most; all if not said.
        length: Option<u64>,
        /// In which channel.
        channel: u32,
    },
    /// Write what comes into a file. Counts only once [`super::ToGuest::Commit`] was said.
    Write {
        /// Which.
        path: Vec<u8>,
        /// What happens to what is there.
        put: Put,
        /// Its permissions; those of the file that is there, or 0644, if not said.
        mode: Option<u32>,
        /// What is noted beside it; as it is there if not said.
        notes: Option<Notes>,
        /// In which channel it comes.
        channel: u32,
    },
    /// Make a directory and all that it lies in.
    MakeDirs {
        /// Which.
        path: Vec<u8>,
        /// Permissions of those that are made.
        mode: u32,
    },
    /// Give something another name.
    Move {
        /// Its name.
        from: Vec<u8>,
        /// Its new name.
        to: Vec<u8>,
        /// What happens to what is there.
        onto: Onto,
    },
    /// Remove something.
    Remove {
        /// What.
        path: Vec<u8>,
        /// Whether directories go with all that is in them.
        depth: Depth,
    },
    /// Change permissions or times.
    Set {
        /// Of what.
        path: Vec<u8>,
        /// Permissions.
        mode: Option<u32>,
        /// When it was changed: seconds since 1970, and nanoseconds.
        modified: Option<(i64, u32)>,
    },
    /// Make a symbolic link.
    Link {
        /// Its name.
        path: Vec<u8>,
        /// What it says.
        target: Vec<u8>,
    },
    /// Send a file or a whole directory as records.
    Pack {
        /// Which.
        path: Vec<u8>,
        /// In which channel.
        channel: u32,
    },
    /// Make what comes as records, in a directory that is made if it is not there.
    Unpack {
        /// Which.
        path: Vec<u8>,
        /// In which channel they come.
        channel: u32,
    },
    /// Send a [`Record::Changed`] for everything that changes, until nobody listens.
    Watch {
        /// In which directory.
        path: Vec<u8>,
        /// Whether what lies deeper counts.
        depth: Depth,
        /// In which channel.
        channel: u32,
    },
}

/// What is noted beside a file: extended attributes, in place of all whose names begin alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notes {
    /// How the names begin of those that are replaced.
    pub prefix: Vec<u8>,
    /// Whole names, and what they say.
    pub all: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Whether a link is asked about, or what it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Follow {
    /// What it leads to.
    Links,
    /// The link.
    Nothing,
}

/// What happens to a file that is written where one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Put {
    /// It is replaced at once when all has come; until then it is as it was.
    Replace,
    /// It is an error.
    New,
    /// What comes is added to it.
    Append,
    /// It is emptied and written in place.
    InPlace,
}

/// What happens to what is where something is moved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Onto {
    /// It is replaced.
    Anything,
    /// It is an error.
    Nothing,
}

/// Whether something is done to all that lies below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Depth {
    /// Only to itself.
    Itself,
    /// To everything.
    Everything,
}

/// What became of a [`FileOrder`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Filed {
    /// It is done.
    Done,
    /// What is there. For [`Ask::Read`] this is said before the bytes come, and something else after
    /// them: whether they were all.
    Is(Facts),
    /// The kernel refused.
    Failed {
        /// What it said.
        errno: i32,
    },
    /// It is not a file whose bytes can be read or written.
    NotAFile {
        /// What it is instead.
        kind: Kind,
    },
}

/// What something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A device.
    Device,
}

/// What the kernel knows about a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// What it is.
    pub kind: Kind,
    /// How many bytes it has.
    pub size: u64,
    /// Its permissions.
    pub mode: u32,
    /// Whose it is, as the sandbox knows users.
    pub owner: (u32, u32),
    /// When it was changed: seconds since 1970, and nanoseconds.
    pub modified: (i64, u32),
    /// What it says, if it is a link.
    pub target: Option<Vec<u8>>,
    /// What users of the sandbox noted beside it: extended attributes, if they are not too many.
    pub notes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A frame in a channel of records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// Something in a directory; in a tree, a file's bytes follow.
    Entry {
        /// Its name, from the directory that was asked about; empty for that itself.
        path: Vec<u8>,
        /// What it is.
        facts: Facts,
    },
    /// All bytes of the file before have come.
    FileEnd,
    /// Something could not be looked at, or is nothing that can be sent. In the place of [`Self::FileEnd`]:
    /// the file before could not be read to its end.
    Skipped {
        /// Its name.
        path: Vec<u8>,
        /// What the kernel said; 0 if it is of a kind that is not sent.
        errno: i32,
    },
    /// Something has changed.
    Changed {
        /// Its name, from the directory that is watched.
        path: Vec<u8>,
        /// What has changed.
        change: Change,
    },
    /// Some changes were not noticed: too many at once, or too many directories.
    Overflow,
    /// That was all.
    End,
}

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// It was made.
    Made,
    /// Its bytes were written.
    Written,
    /// Its permissions or times were set.
    Set,
    /// It was removed.
    Removed,
    /// It was moved away.
    MovedFrom,
    /// It was moved here.
    MovedTo,
}
