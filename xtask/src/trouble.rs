//! What stopped a chore.

use std::error::Error;

/// One sentence about what could not be done, and the reason beneath it if there is one.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(crate) struct Trouble {
    what: String,
    #[source]
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Trouble {
    /// A trouble that has no cause but itself.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), source: None }
    }

    /// The sentence and its causes on one line.
    pub(crate) fn sentence(&self) -> String {
        let mut sentence = self.to_string();
        let mut cause = self.source();
        while let Some(source) = cause {
            sentence.push_str(": ");
            sentence.push_str(&source.to_string());
            cause = source.source();
        }
        sentence
    }
}

/// Says what was being done when something failed.
pub(crate) trait OrTrouble<T> {
    fn or_trouble(self, what: impl FnOnce() -> String) -> Result<T, Trouble>;
}

impl<T, E: Error + Send + Sync + 'static> OrTrouble<T> for Result<T, E> {
    fn or_trouble(self, what: impl FnOnce() -> String) -> Result<T, Trouble> {
        self.map_err(|source| Trouble { what: what(), source: Some(Box::new(source)) })
    }
}
