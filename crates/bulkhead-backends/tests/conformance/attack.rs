//! What an attack is, and what may come of it.

use bulkhead_backends::Backend;
use libtest_mimic::Failed;

/// One way to try to break one promise.
pub(crate) struct Attack {
    /// The claim that it tries to refute.
    pub(crate) name: &'static str,
    /// Tries it in fresh sandboxes of a backend. An error means that it could not be tried.
    pub(crate) run: fn(&dyn Backend) -> Result<Verdict, Failed>,
    /// What must come of it without walls.
    pub(crate) on_none: OnNone,
}

/// What came of an attack.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The promise was kept.
    Held,
    /// It was not; the text says how.
    Broken(String),
}

/// What must come of an attack where there are no walls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnNone {
    /// It succeeds.
    Bites,
    /// It succeeds for root; others are held back by the host itself.
    BitesAsRoot,
    /// It cannot be tried, because it needs something that only walls have. If it could pass by
    /// failing for another reason, it shows first that what it builds can be built.
    CannotBeBuilt,
}

impl Verdict {
    /// Broken if there is something to say.
    pub(crate) fn broken_if(broken: Option<String>) -> Self {
        broken.map_or(Self::Held, Self::Broken)
    }
}

/// A list of attacks, each a function of that name.
macro_rules! attacks {
    ($($on_none:ident $name:ident),* $(,)?) => {
        &[$($crate::attack::Attack {
            name: stringify!($name),
            run: $name,
            on_none: $crate::attack::OnNone::$on_none,
        }),*]
    };
}
pub(crate) use attacks;
