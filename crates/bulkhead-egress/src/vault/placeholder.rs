//! A text that looks like a secret and is none.

use std::io;

/// Beginnings that tell whose key it is; programs check them, and they are no secret.
const BEGINNINGS: [&str; 28] = [
    "sk-ant-api03-",
    "sk-ant-oat01-",
    "sk-ant-admin01-",
    "sk-ant-",
    "sk-proj-",
    "sk-svcacct-",
    "sk-or-v1-",
    "sk-",
    "AIza",
    "github_pat_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "glpat-",
    "npm_",
    "pypi-",
    "xoxb-",
    "xoxp-",
    "hf_",
    "gsk_",
    "xai-",
    "r8_",
    "AKIA",
    "ASIA",
    "ya29.",
    "eyJ",
];

/// Fewer characters than this could turn up by chance.
const LEAST: usize = 12;

/// A text with the beginning, the length and the kinds of characters of `value`, and nothing
/// else of it.
pub(super) fn like(value: &str) -> io::Result<String> {
    let beginning = BEGINNINGS.iter().find(|it| value.starts_with(**it)).copied().unwrap_or("");
    let rest = value.get(beginning.len()..).unwrap_or_default();
    let random = |it: &char| it.is_ascii_alphanumeric();
    if rest.chars().filter(random).count() < LEAST || !value.is_ascii() {
        let mut text = "bulkhead-placeholder-".to_owned();
        for _ in 0..24 {
            text.push(pick(b"abcdefghijklmnopqrstuvwxyz0123456789")?);
        }
        return Ok(text);
    }
    let hex = rest.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f' | b'-'));
    let mut text = beginning.to_owned();
    for character in rest.chars() {
        text.push(match character {
            '0'..='9' | 'a'..='f' if hex => pick(b"0123456789abcdef")?,
            '0'..='9' => pick(b"0123456789")?,
            'a'..='z' => pick(b"abcdefghijklmnopqrstuvwxyz")?,
            'A'..='Z' => pick(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")?,
            other => other,
        });
    }
    Ok(text)
}

/// One of `letters`, by chance.
fn pick(letters: &[u8]) -> io::Result<char> {
    let mut bytes = [0_u8; 4];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    let at =
        usize::try_from(u32::from_le_bytes(bytes)).unwrap_or_default() % letters.len().max(1);
    Ok(char::from(letters.get(at).copied().unwrap_or(b'x')))
}

#[cfg(test)]
mod tests {
    use super::like;

    #[test]
    fn a_placeholder_has_the_shape_and_nothing_else() {
        let value = "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AA";
        let placeholder = like(value).unwrap();
        assert_ne!(placeholder, value);
        assert_eq!(placeholder.len(), value.len());
        assert!(placeholder.starts_with("sk-ant-api03-"));
        for (one, other) in placeholder.chars().zip(value.chars()) {
            assert_eq!(one.is_ascii_uppercase(), other.is_ascii_uppercase());
            assert_eq!(one.is_ascii_digit(), other.is_ascii_digit());
        }
        let hex = like("0123456789abcdef0123456789abcdef").unwrap();
        assert!(hex.bytes().all(|it| it.is_ascii_hexdigit()));
    }

    #[test]
    fn a_short_secret_has_no_shape() {
        for value in ["hunter2", "", "pässword-with-many-letters"] {
            assert!(like(value).unwrap().starts_with("bulkhead-placeholder-"), "{value}");
        }
    }
}
