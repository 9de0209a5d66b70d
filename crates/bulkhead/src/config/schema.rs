//! The JSON Schema of a configuration file, from the table of keys.

use bulkhead_spec::Guarantee;
use serde_json::{Map, Value, json};

use super::keys::{KEYS, Key, Shape};

/// The schema, for editors and for `bulkhead config schema`.
pub(crate) fn schema() -> Value {
    let mut top = Map::new();
    top.insert(
        "schema_version".to_owned(),
        json!({ "const": 1, "description": "The version of this format." }),
    );
    for key in KEYS {
        match key.name.split_once('.') {
            None => {
                top.insert(key.name.to_owned(), property(key));
            }
            Some((table, name)) => {
                let table = top.entry(table).or_insert_with(|| table_schema(table));
                if let Some(properties) = table.pointer_mut("/properties") {
                    properties
                        .as_object_mut()
                        .and_then(|it| it.insert(name.to_owned(), property(key)));
                }
            }
        }
    }
    let env = json!({
        "type": "object",
        "description": "Variables that the sandbox starts with.",
        "additionalProperties": { "type": ["string", "number"] },
    });
    top.insert("env".to_owned(), env);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Bulkhead configuration",
        "type": "object",
        "additionalProperties": false,
        "properties": top,
    })
}

fn table_schema(name: &str) -> Value {
    let says = match name {
        "limits" => "Limits that are insisted on: a backend that cannot hold one refuses.",
        "egress" => "What may be reached by way of the gateway, and with what.",
        "pool" => "Rooms that are made ahead.",
        "rooms" => "How many rooms there may be.",
        "reserve" => "What of the host is kept from sandboxes: a new one is refused first.",
        _ => "The most that any layer or flag may ask for.",
    };
    json!({
        "type": "object",
        "description": says,
        "additionalProperties": false,
        "properties": {},
    })
}

fn property(key: &Key) -> Value {
    let size = "^[0-9]+([.][0-9]{1,6})? ?([bB]|[kKmMgGtT]([iI]?[bB])?)?$";
    let time = "^([0-9]+(ms|s|m|h|d))+$|^[0-9]+$";
    let mut schema = match key.shape {
        Shape::Size => json!({ "type": ["string", "integer"], "pattern": size, "minimum": 0 }),
        Shape::Count => json!({ "type": "integer", "minimum": 0 }),
        Shape::Number => json!({ "type": ["number", "string"], "minimum": 0.01 }),
        Shape::Time => json!({ "type": ["string", "integer"], "pattern": time, "minimum": 0 }),
        Shape::Deadline => json!({
            "type": ["string", "integer"], "pattern": format!("{time}|^none$"), "minimum": 0,
        }),
        Shape::Name => {
            json!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]*$" })
        }
        Shape::Word(words) => json!({ "enum": words }),
        Shape::Guarantees => {
            let names = Guarantee::ALL.iter().map(ToString::to_string);
            let names: Vec<String> = names.chain(["all".to_owned()]).collect();
            json!({ "type": "array", "items": { "enum": names } })
        }
        Shape::Shares => json!({
            "type": "array", "items": { "type": "string", "pattern": "^(/|~/).*$" },
        }),
        Shape::Text => json!({ "type": "string" }),
        Shape::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Shape::Paths => json!({
            "type": "array", "items": { "type": "string", "pattern": "^/.*$" },
        }),
    };
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("description".to_owned(), json!(key.says));
    }
    schema
}
