//! What a model says that it used.
//!
//! Anthropic, `OpenAI` and Google each report tokens in their answers, in one piece or at the end
//! of a stream. What is read here is counted against budgets; nothing else is kept of it.

mod prices;

use std::sync::Arc;

use http::{HeaderMap, header};
use serde_json::Value;

use crate::meter::Toll;

/// The longest event of a stream that is looked at.
const EVENT: usize = 1 << 20;

/// The longest answer in one piece that is looked at.
const WHOLE: usize = 8 << 20;

/// Characters to a token, where a stream does not say what it used.
const PER_TOKEN: u64 = 4;

/// Tokens of one answer. Reports of a stream grow, so the largest counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    model: Option<String>,
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

/// Reads an answer as it passes, and counts what it says when it ends.
pub(crate) struct Reader {
    toll: Arc<Toll>,
    shape: Shape,
    held: Vec<u8>,
    bytes: u64,
    tokens: Tokens,
}

/// How an answer is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// One JSON value.
    Whole,
    /// Server-sent events, a JSON value in each.
    Events,
}

impl Reader {
    pub(crate) fn new(headers: &HeaderMap, toll: Arc<Toll>) -> Self {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let events = kind.is_some_and(|it| it.starts_with("text/event-stream"));
        let shape = if events { Shape::Events } else { Shape::Whole };
        Self { toll, shape, held: Vec::new(), bytes: 0, tokens: Tokens::default() }
    }

    /// Reads a piece.
    pub(crate) fn read(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        match self.shape {
            Shape::Whole if self.held.len() + piece.len() > WHOLE => {}
            Shape::Whole => self.held.extend_from_slice(piece),
            Shape::Events => {
                for byte in piece {
                    if *byte == b'\n' {
                        self.tokens.read_line(&self.held);
                        self.held.clear();
                    } else if self.held.len() < EVENT {
                        self.held.push(*byte);
                    }
                }
            }
        }
    }
}

impl Drop for Reader {
    /// However the answer ended, what it has said so far was spent.
    fn drop(&mut self) {
        match self.shape {
            Shape::Whole => self.tokens.read_json(&self.held),
            Shape::Events => {
                self.tokens.read_line(&self.held);
                if self.tokens.total() == 0 {
                    self.tokens.output = self.bytes / PER_TOKEN;
                }
            }
        }
        let (total, money) = (self.tokens.total(), prices::of(&self.tokens));
        for purse in self.toll.purses() {
            purse.model(total, money);
        }
    }
}

impl Tokens {
    fn total(&self) -> u64 {
        let parts = [self.output, self.cache_read, self.cache_write];
        parts.into_iter().fold(self.input, u64::saturating_add)
    }

    fn read_line(&mut self, line: &[u8]) {
        if let Some(data) = line.strip_prefix(b"data:") {
            self.read_json(data);
        }
    }

    fn read_json(&mut self, text: &[u8]) {
        let Ok(value) = serde_json::from_slice::<Value>(text.trim_ascii()) else { return };
        for part in value.as_array().into_iter().flatten() {
            self.read_value(part);
        }
        self.read_value(&value);
        // Anthropic's streams have it in `message`, those of OpenAI in `response`.
        for inner in ["message", "response"] {
            value.get(inner).into_iter().for_each(|it| self.read_value(it));
        }
    }

    fn read_value(&mut self, value: &Value) {
        let model = value.get("model").or_else(|| value.get("modelVersion"));
        if let Some(model) = model.and_then(Value::as_str) {
            self.model = Some(model.to_owned());
        }
        if let Some(usage) = value.get("usage") {
            self.read_usage(usage);
        }
        if let Some(usage) = value.get("usageMetadata") {
            self.read_google(usage);
        }
    }

    /// The reports of Anthropic and `OpenAI`.
    fn read_usage(&mut self, usage: &Value) {
        let count = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
        let cached = ["prompt_tokens_details", "input_tokens_details"]
            .iter()
            .filter_map(|it| usage.get(*it)?.get("cached_tokens")?.as_u64())
            .max()
            .unwrap_or(0);
        // OpenAI counts what was cached within the input, Anthropic besides it.
        let input = count("input_tokens").max(count("prompt_tokens")).saturating_sub(cached);
        self.input = self.input.max(input);
        self.output = self.output.max(count("output_tokens").max(count("completion_tokens")));
        self.cache_read = self.cache_read.max(cached.max(count("cache_read_input_tokens")));
        self.cache_write = self.cache_write.max(count("cache_creation_input_tokens"));
    }

    fn read_google(&mut self, usage: &Value) {
        let count = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
        let cached = count("cachedContentTokenCount");
        self.input = self.input.max(count("promptTokenCount").saturating_sub(cached));
        let output = count("candidatesTokenCount").saturating_add(count("thoughtsTokenCount"));
        self.output = self.output.max(output);
        self.cache_read = self.cache_read.max(cached);
    }
}

#[cfg(test)]
mod tests {
    use bulkhead_spec::Money;

    use super::{Tokens, prices};

    fn read(text: &str) -> (u64, Money) {
        let mut tokens = Tokens::default();
        tokens.read_json(text.as_bytes());
        text.lines().for_each(|it| tokens.read_line(it.as_bytes()));
        (tokens.total(), prices::of(&tokens))
    }

    #[test]
    fn each_maker_reports_in_its_own_way() {
        let answers = [
            // Anthropic, whole: 10 in at $3, 5 out at $15, 100 cached at $0.30, 20 kept at $3.75.
            (
                r#"{"model":"claude-sonnet-4-5-20250929","usage":{"input_tokens":10,"output_tokens":5,
                "cache_read_input_tokens":100,"cache_creation_input_tokens":20}}"#,
                (135, Money(210)),
            ),
            // Anthropic, a stream.
            (
                "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\
                 \"claude-opus-4-5\",\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n\
                 data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":15}}\n\n",
                (40, Money(500)),
            ),
            // OpenAI, chat: 1000 in of which 400 cached, 100 out.
            (
                r#"{"model":"gpt-4o-2024-08-06","usage":{"prompt_tokens":1000,"completion_tokens":100,
                "total_tokens":1100,"prompt_tokens_details":{"cached_tokens":400}}}"#,
                (1100, Money(3000)),
            ),
            // OpenAI, responses, a stream.
            (
                "data: {\"type\":\"response.completed\",\"response\":{\"model\":\"gpt-5-mini\",\
                 \"usage\":{\"input_tokens\":1000,\"output_tokens\":1000}}}\n",
                (2000, Money(2250)),
            ),
            // Google, a stream as an array.
            (
                r#"[{"usageMetadata":{"promptTokenCount":100}},{"modelVersion":"gemini-2.5-pro",
                "usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":7,
                "thoughtsTokenCount":3,"totalTokenCount":110}}]"#,
                (110, Money(225)),
            ),
            // More than anybody can count is as much as can be counted.
            (
                r#"{"usage":{"input_tokens":18446744073709551615,"output_tokens":18446744073709551615}}"#,
                (u64::MAX, Money(u64::MAX)),
            ),
            (
                r#"{"usageMetadata":{"candidatesTokenCount":18446744073709551615,"thoughtsTokenCount":1}}"#,
                (u64::MAX, Money(u64::MAX)),
            ),
            (r#"{"error":"no"}"#, (0, Money(0))),
            ("not json", (0, Money(0))),
        ];
        for (text, expected) in answers {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
