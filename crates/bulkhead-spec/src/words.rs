//! Arguments and variables on paper: text where they are text, bytes where they are not.

use std::{collections::BTreeMap, ffi::OsString, fmt, os::unix::ffi::OsStringExt as _};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{SeqAccess, Visitor},
};

/// One argument, name or value, such as the system takes: bytes that are mostly text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Word(pub OsString);

impl Word {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_encoded_bytes()
    }
}

impl From<&[u8]> for Word {
    fn from(bytes: &[u8]) -> Self {
        Self(OsString::from_vec(bytes.to_vec()))
    }
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => to.serialize_str(text),
            None => to.collect_seq(self.0.as_encoded_bytes()),
        }
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Word;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("text, or a list of bytes")
            }

            fn visit_str<E>(self, text: &str) -> Result<Word, E> {
                Ok(Word(text.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Word, A::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = from.next_element()? {
                    bytes.push(byte);
                }
                Ok(Word(OsString::from_vec(bytes)))
            }
        }
        from.deserialize_any(Either)
    }
}

/// For fields that are lists of arguments.
pub(crate) mod list {
    use super::{Deserialize as _, Deserializer, OsString, Serializer, Word};

    pub(crate) fn serialize<S: Serializer>(
        words: &[OsString],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(words.iter().map(|it| Word(it.clone())))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<OsString>, D::Error> {
        let words = Vec::<Word>::deserialize(from)?;
        Ok(words.into_iter().map(|Word(it)| it).collect())
    }
}

/// For fields that are variables: pairs, because a name need not be text either.
pub(crate) mod pairs {
    use super::{BTreeMap, Deserialize as _, Deserializer, OsString, Serializer, Word};

    pub(crate) fn serialize<S: Serializer>(
        variables: &BTreeMap<OsString, OsString>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(
            variables.iter().map(|(name, it)| (Word(name.clone()), Word(it.clone()))),
        )
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<OsString, OsString>, D::Error> {
        let pairs = Vec::<(Word, Word)>::deserialize(from)?;
        Ok(pairs.into_iter().map(|(Word(name), Word(it))| (name, it)).collect())
    }
}
