//! The errors by number, each with a page.

/// What kind of thing went wrong. The numbers are stable; scripts may rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// A configuration file cannot be read.
    ConfigFile,
    /// A key that does not exist.
    UnknownKey,
    /// A value that a key or a variable cannot have.
    BadValue,
    /// A project's file that widens and is not trusted.
    Untrusted,
    /// Flags that contradict what is there.
    Argument,
    /// The workspace cannot be used.
    Workspace,
    /// Something cannot be shared.
    Share,
    /// The policy says no.
    Denied,
    /// No backend upholds what is required.
    Unplaced,
    /// No container daemon can be used.
    Daemon,
    /// The daemon has no such runtime.
    Runtime,
    /// A secret has no value.
    Secret,
    /// The way out could not be opened.
    WayOut,
    /// The program is not there.
    NotFound,
    /// The program cannot be run.
    NotExecutable,
    /// The working directory is not there.
    WorkDir,
    /// The sandbox could not be built.
    Build,
    /// The image cannot be used as a root.
    Image,
    /// An image could not be built, listed or removed.
    ImageBuild,
    /// The record could not be written.
    Record,
    /// A room is not there, or not in a state for this.
    Room,
    /// There is no place for another room now.
    Full,
    /// A request to a server could not be understood.
    Request,
    /// A server did not let somebody in.
    Door,
    /// A file of a room cannot be used so.
    File,
    /// A call cannot be repeated under its key.
    Repeated,
    /// The host has no room for this now.
    Busy,
    /// The system refused something that it usually grants.
    System,
}

impl Code {
    /// All of them, by number.
    pub(crate) const ALL: &[Self] = &[
        Self::ConfigFile,
        Self::UnknownKey,
        Self::BadValue,
        Self::Untrusted,
        Self::Argument,
        Self::Workspace,
        Self::Share,
        Self::Denied,
        Self::Unplaced,
        Self::Daemon,
        Self::Runtime,
        Self::Secret,
        Self::WayOut,
        Self::NotFound,
        Self::NotExecutable,
        Self::WorkDir,
        Self::Build,
        Self::Image,
        Self::ImageBuild,
        Self::Record,
        Self::Room,
        Self::Full,
        Self::Request,
        Self::Door,
        Self::File,
        Self::Repeated,
        Self::Busy,
        Self::System,
    ];

    /// `BH-E0xx`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ConfigFile => "BH-E001",
            Self::UnknownKey => "BH-E002",
            Self::BadValue => "BH-E003",
            Self::Untrusted => "BH-E004",
            Self::Argument => "BH-E010",
            Self::Workspace => "BH-E011",
            Self::Share => "BH-E012",
            Self::Denied => "BH-E020",
            Self::Unplaced => "BH-E021",
            Self::Daemon => "BH-E022",
            Self::Runtime => "BH-E023",
            Self::Secret => "BH-E024",
            Self::WayOut => "BH-E025",
            Self::NotFound => "BH-E030",
            Self::NotExecutable => "BH-E031",
            Self::WorkDir => "BH-E032",
            Self::Build => "BH-E040",
            Self::Image => "BH-E041",
            Self::ImageBuild => "BH-E042",
            Self::Record => "BH-E050",
            Self::Room => "BH-E060",
            Self::Full => "BH-E061",
            Self::Request => "BH-E070",
            Self::Door => "BH-E071",
            Self::File => "BH-E072",
            Self::Repeated => "BH-E073",
            Self::Busy => "BH-E074",
            Self::System => "BH-E090",
        }
    }

    /// What it means and what to do.
    pub(crate) fn page(self) -> &'static str {
        match self {
            Self::ConfigFile => include_str!("codes/BH-E001.md"),
            Self::UnknownKey => include_str!("codes/BH-E002.md"),
            Self::BadValue => include_str!("codes/BH-E003.md"),
            Self::Untrusted => include_str!("codes/BH-E004.md"),
            Self::Argument => include_str!("codes/BH-E010.md"),
            Self::Workspace => include_str!("codes/BH-E011.md"),
            Self::Share => include_str!("codes/BH-E012.md"),
            Self::Denied => include_str!("codes/BH-E020.md"),
            Self::Unplaced => include_str!("codes/BH-E021.md"),
            Self::Daemon => include_str!("codes/BH-E022.md"),
            Self::Runtime => include_str!("codes/BH-E023.md"),
            Self::Secret => include_str!("codes/BH-E024.md"),
            Self::WayOut => include_str!("codes/BH-E025.md"),
            Self::NotFound => include_str!("codes/BH-E030.md"),
            Self::NotExecutable => include_str!("codes/BH-E031.md"),
            Self::WorkDir => include_str!("codes/BH-E032.md"),
            Self::Build => include_str!("codes/BH-E040.md"),
            Self::Image => include_str!("codes/BH-E041.md"),
            Self::ImageBuild => include_str!("codes/BH-E042.md"),
            Self::Record => include_str!("codes/BH-E050.md"),
            Self::Room => include_str!("codes/BH-E060.md"),
            Self::Full => include_str!("codes/BH-E061.md"),
            Self::Request => include_str!("codes/BH-E070.md"),
            Self::Door => include_str!("codes/BH-E071.md"),
            Self::File => include_str!("codes/BH-E072.md"),
            Self::Repeated => include_str!("codes/BH-E073.md"),
            Self::Busy => include_str!("codes/BH-E074.md"),
            Self::System => include_str!("codes/BH-E090.md"),
        }
    }
}
