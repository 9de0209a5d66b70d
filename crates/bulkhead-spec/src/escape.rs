//! Text from inside, made harmless for a terminal and a log.
//!
//! Everything that comes out of a sandbox (names, arguments, messages) may carry escape
//! sequences that set a title, write the clipboard or reorder a line. Whatever we print of it
//! goes through here first.

/// `text` with every control, bidirectional and zero-width character spelled out.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for it in text.chars() {
        if is_harmless(it) { out.push(it) } else { out.extend(it.escape_unicode()) }
    }
    out
}

/// Like [`escape`], for bytes that may not be UTF-8: what is not is written `\xNN`.
pub fn escape_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(&escape(chunk.valid()));
        for byte in chunk.invalid() {
            out.extend(std::ascii::escape_default(*byte).map(char::from));
        }
    }
    out
}

fn is_harmless(it: char) -> bool {
    let reorders = matches!(it,
        '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    !it.is_control() && !reorders
}
