//! What models cost.
//!
//! List prices in dollars for a million tokens, which is the same as millionths for one, as they
//! were published in November 2026. Where the price depends on the length of a prompt it is that of
//! long ones if those are usual. They change; a model that is not listed is taken for a dear one, so
//! that a budget is not outspent.

use bulkhead_spec::Money;

use super::Tokens;

/// A model's name without its date, and its prices: in, out, read from a cache, kept in a cache.
type Line = (&'static str, f64, f64, f64, f64);

const PRICES: &[Line] = &[
    ("claude-fable-5", 10.0, 50.0, 1.0, 12.5),
    ("claude-fable-5-1", 10.0, 50.0, 0.25, 12.5),
    ("claude-mythos-5", 10.0, 50.0, 1.0, 12.5),
    ("claude-mythos-5-1", 10.0, 50.0, 0.25, 12.5),
    ("claude-opus-5-5", 4.0, 20.0, 0.2, 5.0),
    ("claude-opus-5", 5.0, 25.0, 0.5, 6.25),
    ("claude-opus-4-8", 5.0, 25.0, 0.5, 6.25),
    ("claude-opus-4-7", 5.0, 25.0, 0.5, 6.25),
    ("claude-opus-4-6", 5.0, 25.0, 0.5, 6.25),
    ("claude-opus-4-5", 5.0, 25.0, 0.5, 6.25),
    ("claude-opus-4-1", 15.0, 75.0, 1.5, 18.75),
    ("claude-opus-4-0", 15.0, 75.0, 1.5, 18.75),
    ("claude-opus-4", 15.0, 75.0, 1.5, 18.75),
    ("claude-3-opus", 15.0, 75.0, 1.5, 18.75),
    ("claude-sonnet-5-5", 2.0, 10.0, 0.2, 2.5),
    ("claude-sonnet-5", 2.0, 10.0, 0.2, 2.5),
    ("claude-sonnet-4-6", 3.0, 15.0, 0.3, 3.75),
    ("claude-sonnet-4-5", 3.0, 15.0, 0.3, 3.75),
    ("claude-sonnet-4-0", 3.0, 15.0, 0.3, 3.75),
    ("claude-sonnet-4", 3.0, 15.0, 0.3, 3.75),
    ("claude-3-7-sonnet", 3.0, 15.0, 0.3, 3.75),
    ("claude-3-5-sonnet", 3.0, 15.0, 0.3, 3.75),
    ("claude-haiku-5-5", 0.5, 2.5, 0.05, 0.625),
    ("claude-haiku-4-5", 1.0, 5.0, 0.1, 1.25),
    ("claude-3-5-haiku", 0.8, 4.0, 0.08, 1.0),
    ("claude-3-haiku", 0.25, 1.25, 0.03, 0.3),
    ("gpt-6.1-sol", 2.0, 10.0, 0.1, 2.5),
    ("gpt-6-sol", 2.0, 10.0, 0.2, 2.5),
    ("gpt-6-luna", 0.1, 0.5, 0.01, 0.125),
    ("gpt-5.6-sol", 4.0, 20.0, 0.4, 5.0),
    ("gpt-5.6-luna", 0.2, 1.2, 0.02, 0.25),
    ("gpt-5.5-pro", 30.0, 180.0, 30.0, 0.0),
    ("gpt-5.5", 5.0, 30.0, 0.5, 0.0),
    ("gpt-5.4-pro", 30.0, 180.0, 30.0, 0.0),
    ("gpt-5.4", 2.5, 15.0, 0.25, 0.0),
    ("gpt-5.4-mini", 0.75, 4.5, 0.075, 0.0),
    ("gpt-5.4-nano", 0.2, 1.25, 0.02, 0.0),
    ("gpt-5.2-pro", 21.0, 168.0, 21.0, 0.0),
    ("gpt-5.2", 1.75, 14.0, 0.175, 0.0),
    ("gpt-5.1", 1.25, 10.0, 0.125, 0.0),
    ("gpt-5", 1.25, 10.0, 0.125, 0.0),
    ("gpt-5-mini", 0.25, 2.0, 0.025, 0.0),
    ("gpt-5-nano", 0.05, 0.4, 0.005, 0.0),
    ("gpt-5-pro", 15.0, 120.0, 15.0, 0.0),
    ("gpt-4.1", 2.0, 8.0, 0.5, 0.0),
    ("gpt-4.1-mini", 0.4, 1.6, 0.1, 0.0),
    ("gpt-4.1-nano", 0.1, 0.4, 0.025, 0.0),
    ("gpt-4o", 2.5, 10.0, 1.25, 0.0),
    ("gpt-4o-mini", 0.15, 0.6, 0.075, 0.0),
    ("o1-pro", 150.0, 600.0, 150.0, 0.0),
    ("o1", 15.0, 60.0, 7.5, 0.0),
    ("o3-pro", 20.0, 80.0, 20.0, 0.0),
    ("o3", 2.0, 8.0, 0.5, 0.0),
    ("o3-mini", 1.1, 4.4, 0.55, 0.0),
    ("o4-mini", 1.1, 4.4, 0.275, 0.0),
    ("gemini-3.5-flash", 1.5, 9.0, 0.15, 0.0),
    ("gemini-3.1-pro", 2.0, 12.0, 0.2, 0.0),
    ("gemini-3-pro", 2.0, 12.0, 0.2, 0.0),
    ("gemini-3-flash", 0.5, 3.0, 0.05, 0.0),
    ("gemini-2.5-pro", 1.25, 10.0, 0.31, 0.0),
    ("gemini-2.5-flash", 0.3, 2.5, 0.075, 0.0),
    ("gemini-2.5-flash-lite", 0.1, 0.4, 0.025, 0.0),
    ("gemini-2.0-flash", 0.1, 0.4, 0.025, 0.0),
];

/// A dear one, for models that nobody has listed.
const DEAR: Line = ("", 30.0, 180.0, 30.0, 37.5);

/// What may follow the name of a model and not make it another one, besides a date.
const SAME: [&str; 5] = ["latest", "preview", "exp", "chat", "codex"];

/// Whether `model` is the one of this name, perhaps of some date. `gpt-5.9` and `gpt-5-huge` are not
/// `gpt-5`.
fn is(model: &str, name: &str) -> bool {
    let Some(rest) = model.strip_prefix(name) else { return false };
    let dated = |part: &str| 2 <= part.len() && part.bytes().all(|it| it.is_ascii_digit());
    match rest.strip_prefix(['-', '@']) {
        Some(rest) => rest.split('-').all(|part| dated(part) || SAME.contains(&part)),
        None => rest.is_empty(),
    }
}

/// What `tokens` cost, rounded up.
pub(super) fn of(tokens: &Tokens) -> Money {
    let model = tokens.model.as_deref().unwrap_or_default();
    // Some say before it whose it is.
    let model = model.rsplit('/').next().unwrap_or_default();
    let listed = PRICES.iter().find(|(name, ..)| is(model, name));
    let (_, input, output, read, write) = listed.copied().unwrap_or(DEAR);
    #[expect(clippy::cast_precision_loss, reason = "no answer has so many tokens")]
    let cost = |count: u64, price: f64| count as f64 * price;
    let sum = cost(tokens.input, input)
        + cost(tokens.output, output)
        + cost(tokens.cache_read, read)
        + cost(tokens.cache_write, write);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a sum of products that are not negative; too much becomes the most there is"
    )]
    Money((sum - 1e-6).ceil().max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(model: &str) -> u64 {
        let model = Some(model.to_owned());
        of(&Tokens { model, output: 1_000_000, ..Tokens::default() }).0 / 1_000_000
    }

    #[test]
    fn a_date_makes_no_other_model_and_anything_else_does() {
        for (model, output) in [
            ("gpt-5", 10),
            ("gpt-5-2025-08-07", 10),
            ("gpt-5-codex", 10),
            ("gpt-5-chat-latest", 10),
            ("gpt-5.4-2026-03-05", 15),
            ("gpt-5.9", 180),
            ("gpt-5-huge", 180),
            ("claude-opus-4-20250514", 75),
            ("claude-opus-4-7", 25),
            ("claude-opus-4-5-20251101", 25),
            ("claude-opus-5-9", 180),
            ("anthropic/claude-sonnet-5", 10),
            ("gemini-3-pro-preview", 12),
            ("gemini-2.5-flash-preview-09-2025", 2),
            ("", 180),
        ] {
            assert_eq!(price(model), output, "{model}");
        }
    }

    #[test]
    fn no_model_is_listed_twice_or_for_nothing() {
        for (at, (name, input, output, read, _)) in PRICES.iter().enumerate() {
            assert!(PRICES.iter().skip(at + 1).all(|it| it.0 != *name), "{name}");
            assert!(0.0 < *read && read <= input && input < output, "{name}");
        }
    }
}
