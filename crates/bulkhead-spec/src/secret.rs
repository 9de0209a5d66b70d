//! A value that must not be seen.

use std::fmt;

use zeroize::Zeroizing;

/// A secret. It cannot be printed, serialised or compared, only [exposed](Secret::expose).
///
/// Its memory is overwritten when it is dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<Box<str>>);

impl Secret {
    /// Takes charge of `value`.
    pub fn new(value: impl Into<Box<str>>) -> Self {
        Self(Zeroizing::new(value.into()))
    }

    /// The value. Every call is a place where it may leak, so there should be few.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(…)")
    }
}
