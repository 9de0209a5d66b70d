//! What a client is told, a line of JSON each.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::report::{Fault, Standing};

/// MIME types and what clients call them.
const FORMS: [(&str, &str); 12] = [
    ("text/plain", "text"),
    ("text/html", "html"),
    ("text/markdown", "markdown"),
    ("image/svg+xml", "svg"),
    ("image/png", "png"),
    ("image/jpeg", "jpeg"),
    ("application/pdf", "pdf"),
    ("text/latex", "latex"),
    ("application/json", "json"),
    ("application/javascript", "javascript"),
    ("e2b/data", "data"),
    ("e2b/chart", "chart"),
];
/// Those of them that are not text.
const TREES: [&str; 3] = ["json", "data", "chart"];

/// One line.
fn line(value: &Value) -> Bytes {
    format!("{value}\n").into()
}

/// Something was written to a stream.
pub(super) fn text(kind: &'static str, text: &str) -> Bytes {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let timestamp = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    line(&json!({ "type": kind, "text": text, "timestamp": timestamp }))
}

/// Something went wrong.
pub(super) fn fault(fault: &Fault) -> Bytes {
    let Fault { name, value, traceback } = fault;
    line(&json!({ "type": "error", "name": name, "value": value, "traceback": traceback }))
}

/// The piece is the so-manieth.
pub(super) fn count(count: u64) -> Bytes {
    line(&json!({ "type": "number_of_executions", "execution_count": count }))
}

/// Nothing has happened; the stream lives.
pub(super) fn keepalive() -> Bytes {
    line(&json!({ "type": "keepalive" }))
}

/// That was all.
pub(super) fn end() -> Bytes {
    line(&json!({ "type": "end_of_execution" }))
}

/// Something is shown. A form of the wrong kind is left out: clients trust what they are told.
pub(super) fn shown(forms: Map<String, Value>, standing: Standing) -> Bytes {
    let mut told = Map::new();
    let mut extra = Map::new();
    for (kind, form) in forms {
        let name = FORMS.iter().find(|(it, _)| *it == kind).map(|(_, name)| *name);
        match name {
            None => {
                extra.insert(kind, form);
            }
            Some(name) if TREES.contains(&name) || form.is_string() => {
                told.insert(name.to_owned(), form);
            }
            Some(_) => {}
        }
    }
    if let Some(Value::String(text)) = told.get_mut("text") {
        unquote(text);
    }
    if !extra.is_empty() {
        told.insert("extra".to_owned(), Value::Object(extra));
    }
    told.insert("type".to_owned(), "result".into());
    told.insert("is_main_result".to_owned(), (standing == Standing::Main).into());
    line(&Value::Object(told))
}

/// A value that is text is shown without its quotes.
fn unquote(text: &mut String) {
    for quote in ['\'', '"'] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|it| it.strip_suffix(quote)) {
            *text = inner.to_owned();
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(forms: Value) -> Value {
        let Value::Object(forms) = forms else { panic!("not an object") };
        serde_json::from_slice(&shown(forms, Standing::Main)).unwrap()
    }

    #[test]
    fn forms_get_the_names_that_clients_know() {
        assert_eq!(
            told(json!({ "text/plain": "'x'", "e2b/data": { "a": [1] }, "image/gif": "R0" })),
            json!({
                "type": "result",
                "is_main_result": true,
                "text": "x",
                "data": { "a": [1] },
                "extra": { "image/gif": "R0" },
            })
        );
    }

    #[test]
    fn a_form_of_the_wrong_kind_is_left_out() {
        let told = told(json!({ "text/plain": 7, "image/png": ["x"], "text/html": "<b>" }));
        assert_eq!(told, json!({ "type": "result", "is_main_result": true, "html": "<b>" }));
    }
}
