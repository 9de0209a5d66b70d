//! What models cost.
//!
//! List prices in dollars for a million tokens, which is the same as millionths for one. They
//! change; a model that is not listed is taken for the dearest, so that a budget is not outspent.

use bulkhead_spec::Money;

use super::Tokens;

/// The beginning of a model's name, and its prices: in, out, read from a cache, kept in a cache.
type Line = (&'static str, f64, f64, f64, f64);

const PRICES: &[Line] = &[
    ("claude-opus-4-5", 5.0, 25.0, 0.5, 6.25),
    ("claude-opus-4-6", 5.0, 25.0, 0.5, 6.25),
    ("claude-opus", 15.0, 75.0, 1.5, 18.75),
    ("claude-sonnet", 3.0, 15.0, 0.3, 3.75),
    ("claude-3-7-sonnet", 3.0, 15.0, 0.3, 3.75),
    ("claude-3-5-sonnet", 3.0, 15.0, 0.3, 3.75),
    ("claude-haiku-4", 1.0, 5.0, 0.1, 1.25),
    ("claude-3-5-haiku", 0.8, 4.0, 0.08, 1.0),
    ("claude-3-haiku", 0.25, 1.25, 0.03, 0.3),
    ("gpt-5", 1.25, 10.0, 0.125, 0.0),
    ("gpt-5-mini", 0.25, 2.0, 0.025, 0.0),
    ("gpt-5-nano", 0.05, 0.4, 0.005, 0.0),
    ("gpt-5-pro", 15.0, 120.0, 15.0, 0.0),
    ("gpt-4.1", 2.0, 8.0, 0.5, 0.0),
    ("gpt-4.1-mini", 0.4, 1.6, 0.1, 0.0),
    ("gpt-4.1-nano", 0.1, 0.4, 0.025, 0.0),
    ("gpt-4o", 2.5, 10.0, 1.25, 0.0),
    ("gpt-4o-mini", 0.15, 0.6, 0.075, 0.0),
    ("o1", 15.0, 60.0, 7.5, 0.0),
    ("o3", 2.0, 8.0, 0.5, 0.0),
    ("o4-mini", 1.1, 4.4, 0.275, 0.0),
    ("gemini-3-pro", 2.0, 12.0, 0.2, 0.0),
    ("gemini-2.5-pro", 1.25, 10.0, 0.31, 0.0),
    ("gemini-2.5-flash", 0.3, 2.5, 0.075, 0.0),
    ("gemini-2.5-flash-lite", 0.1, 0.4, 0.025, 0.0),
    ("gemini-2.0-flash", 0.1, 0.4, 0.025, 0.0),
];

/// The dearest, for models that nobody has listed.
const DEAREST: Line = ("", 15.0, 120.0, 15.0, 18.75);

/// What `tokens` cost, rounded up.
pub(super) fn of(tokens: &Tokens) -> Money {
    let model = tokens.model.as_deref().unwrap_or_default();
    let listed = PRICES.iter().filter(|it| model.starts_with(it.0));
    let (_, input, output, read, write) =
        listed.max_by_key(|it| it.0.len()).copied().unwrap_or(DEAREST);
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
