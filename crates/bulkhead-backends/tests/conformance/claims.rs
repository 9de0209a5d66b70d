//! What a backend claims, and what must be there.

use bulkhead_backends::Backend;
use bulkhead_spec::{Guarantee, Guarantees};

/// The promises that a backend claims on this host.
pub(crate) struct Claims(Guarantees);

impl Claims {
    pub(crate) fn of(backend: &dyn Backend) -> Self {
        Self(backend.upholds())
    }

    /// From the words of [`Claims::to_words`].
    pub(crate) fn from_words(words: &str) -> Self {
        Self(words.split(", ").filter_map(|it| it.trim().parse().ok()).collect())
    }

    pub(crate) fn to_words(&self) -> String {
        self.0.to_string()
    }

    pub(crate) fn contains(&self, guarantee: Guarantee) -> bool {
        self.0.contains(guarantee)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether `BULKHEAD_REQUIRE` says that `backend` must be there, so that a machine that tests the
/// project cannot skip it quietly.
pub(crate) fn required(backend: &str) -> bool {
    #[expect(clippy::disallowed_methods, reason = "a test has no configuration but this")]
    let required = std::env::var("BULKHEAD_REQUIRE").unwrap_or_default();
    required.split(',').any(|it| it.trim() == backend)
}
