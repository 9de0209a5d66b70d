//! Six bits to a character.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text for `bytes`, padded.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let all = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let six = usize::try_from(all >> (18 - 6 * place) & 63).unwrap_or_default();
            let letter = ALPHABET.get(six).copied().unwrap_or(b'=');
            text.push(char::from(if place <= chunk.len() { letter } else { b'=' }));
        }
    }
    text
}

/// The bytes of a text, with or without padding; `None` if it is none.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let (mut held, mut bits) = (0_u32, 0_u32);
    for letter in text.trim_ascii().iter().filter(|it| **it != b'=') {
        let six = ALPHABET.iter().position(|it| it == letter)?;
        held = (held << 6 | u32::try_from(six).ok()?) & 0xff_ffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn padding_fills_the_last_four() {
        let cases =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (plain, text) in cases {
            assert_eq!(super::encode(plain.as_bytes()), text);
            assert_eq!(super::decode(text.as_bytes()).unwrap(), plain.as_bytes());
        }
    }
}
