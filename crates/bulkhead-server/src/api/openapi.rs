//! The description of the API, made from its calls and its words.

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    operation::{Gives, Need, Operation, Repeat, Takes},
    words::ProblemView,
};
use crate::keys::Scope;

/// Everything that may go wrong in more than one call: the status, and what it means.
const TROUBLES: [(&str, &str); 12] = [
    ("400", "The request cannot be understood."),
    ("401", "There is no key, or a wrong one."),
    ("403", "The key is not good for this, or a page of others asks."),
    ("404", "It is not there."),
    ("405", "The call has another method."),
    ("406", "There is no such form."),
    ("409", "It is not in a state for this."),
    ("413", "The request is too long."),
    ("415", "The request has another form."),
    ("421", "The server does not go by this name."),
    ("422", "It may not or cannot be had here."),
    ("429", "The host has no room for this now."),
];

/// The whole document.
pub(crate) fn document(operations: &[Operation]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|it| {
        it.definitions_path = "/components/schemas".into();
        it.meta_schema = None;
    });
    let mut schemas = settings.into_generator();
    let problem = schemas.subschema_for::<ProblemView>().to_value();
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations {
        let described = described(operation, &mut schemas);
        let path = operation.path.replace("{*", "{");
        let path = paths.entry(path).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(operation.method.as_str().to_lowercase(), described);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Bulkhead",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Sandboxes for AI agents and untrusted code, over HTTP.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "bearer": [] }, { "apiKey": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "responses": troubles(&problem),
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
                "apiKey": { "type": "apiKey", "in": "header", "name": "X-API-Key" },
            },
        },
    })
}

/// Each trouble, once.
fn troubles(problem: &Value) -> Value {
    let content = json!({ "application/problem+json": { "schema": problem } });
    let trouble = |(status, means): (&str, &str)| {
        (format!("Problem{status}"), json!({ "description": means, "content": content }))
    };
    Value::Object(TROUBLES.into_iter().map(trouble).collect())
}

fn described(operation: &Operation, schemas: &mut SchemaGenerator) -> Value {
    let mut responses = Map::new();
    responses.insert(operation.status.to_string(), answer(operation, schemas));
    for (status, _) in TROUBLES {
        let shared = json!({ "$ref": format!("#/components/responses/Problem{status}") });
        responses.insert(status.to_owned(), shared);
    }
    let mut all = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [tag(operation.path)],
        "description": scope(operation.need),
        "parameters": parameters(operation, schemas),
        "responses": responses,
    });
    let body = match operation.takes {
        Takes::Nothing => None,
        Takes::Json(schema) => Some(("application/json", schema(schemas).to_value(), true)),
        Takes::MaybeJson(schema) => {
            Some(("application/json", schema(schemas).to_value(), false))
        }
        Takes::Bytes(form) => Some((form, json!({}), true)),
    };
    if let (Some(all), Some((form, schema, required))) = (all.as_object_mut(), body) {
        let content = json!({ (form): { "schema": schema } });
        let body = json!({ "required": required, "content": content });
        all.insert("requestBody".to_owned(), body);
    }
    if let (Some(all), Need::Nothing) = (all.as_object_mut(), operation.need) {
        all.insert("security".to_owned(), json!([]));
    }
    all
}

fn answer(operation: &Operation, schemas: &mut SchemaGenerator) -> Value {
    let events = || json!({ "schema": { "type": "string" } });
    let content = match operation.gives {
        Gives::Nothing => return json!({ "description": "Done." }),
        Gives::Json(schema) => {
            json!({ "application/json": { "schema": schema(schemas).to_value() } })
        }
        Gives::JsonOrEvents(schema) => json!({
            "application/json": { "schema": schema(schemas).to_value() },
            "text/event-stream": events(),
        }),
        Gives::Bytes(form) => json!({ (form): {} }),
        Gives::Events => json!({ "text/event-stream": events() }),
    };
    json!({ "description": "What was asked for.", "content": content })
}

fn scope(need: Need) -> String {
    match need {
        Need::Nothing => "Needs no key.".to_owned(),
        Need::Key(Scope::Read) => "Needs a key of scope `read`.".to_owned(),
        Need::Key(Scope::Run) => "Needs a key of scope `run`.".to_owned(),
        Need::Key(Scope::Admin) => "Needs a key of scope `admin`.".to_owned(),
    }
}

fn tag(path: &str) -> &str {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["", "v1", "sandboxes", _, part, ..]
            if matches!(*part, "programs" | "files" | "tree" | "ports") =>
        {
            if *part == "tree" {
                "files"
            } else {
                part
            }
        }
        ["", "v1", part, ..] => part,
        _ => "server",
    }
}

fn parameters(operation: &Operation, schemas: &mut SchemaGenerator) -> Vec<Value> {
    let names = operation
        .path
        .split('/')
        .filter_map(|it| it.strip_prefix('{')?.trim_start_matches('*').strip_suffix('}'));
    let mut all: Vec<Value> = names.map(in_path).collect();
    if let Some(query) = operation.query {
        all.extend(in_query(&query(schemas).to_value()));
    }
    if operation.repeat == Repeat::Once {
        all.push(json!({
            "name": "Idempotency-Key",
            "in": "header",
            "required": false,
            "description": "The call is made once for each of these within 24 hours; who repeats \
                            it gets the first answer again.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255,
                        "pattern": "^[!-~]+$" },
        }));
    }
    all
}

fn in_path(name: &str) -> Value {
    let schema = match name {
        "id" => json!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" }),
        "program" => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        "port" => json!({ "type": "integer", "minimum": 1, "maximum": u16::MAX }),
        _ => json!({ "type": "string" }),
    };
    json!({ "name": name, "in": "path", "required": true, "schema": schema })
}

/// The fields of a query, each as a parameter.
fn in_query(schema: &Value) -> Vec<Value> {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|it| it.iter().any(|it| it == name));
    let fields = schema.get("properties").and_then(Value::as_object);
    let parameter = |(name, schema): (&String, &Value)| {
        let mut schema = schema.clone();
        let description = schema.as_object_mut().and_then(|it| it.remove("description"));
        // What is not said is left out: `null` cannot be written in a query.
        if let Some(kinds) = schema.get_mut("type")
            && let Some(kind) = kinds.as_array().and_then(|it| it.first().cloned())
        {
            *kinds = kind;
        }
        json!({
            "name": name,
            "in": "query",
            "required": is_required(name),
            "description": description,
            "schema": schema,
        })
    };
    fields.into_iter().flatten().map(parameter).collect()
}
