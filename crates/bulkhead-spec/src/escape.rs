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
    !it.is_control() && !is_unseen(it)
}

/// Characters that reorder or break a line, or that show as nothing at all: Unicode's
/// `Bidi_Control` and `Default_Ignorable_Code_Point`, the line and paragraph separators, and the
/// interlinear marks. Text can be hidden in each of them.
fn is_unseen(it: char) -> bool {
    matches!(it,
        '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}
