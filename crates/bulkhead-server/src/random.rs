//! Names and tokens that nobody can guess.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// So many random bytes.
fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes)
}

/// `count` random letters and digits, all lower case.
pub(crate) fn word(count: usize) -> io::Result<String> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut word = String::with_capacity(count);
    while word.len() < count {
        for byte in bytes::<32>()? {
            if word.len() < count {
                word.extend(LETTERS.get(usize::from(byte & 31)).map(|it| char::from(*it)));
            }
        }
    }
    Ok(word)
}

/// 160 random bits as hexadecimal digits.
pub(crate) fn token() -> io::Result<String> {
    Ok(bytes::<20>()?.iter().flat_map(|it| [it >> 4, it & 15]).filter_map(digit).collect())
}

fn digit(value: u8) -> Option<char> {
    char::from_digit(value.into(), 16)
}
