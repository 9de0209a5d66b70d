//! The page `docs/config-reference.md`, from the table of keys: it says what the table says, or a
//! test fails.

use std::{fmt::Write as _, fs, path::Path};

use super::keys::{KEYS, Key, Shape};

/// The page.
fn page() -> String {
    let mut text = String::from(
        "# Configuration reference\n\n\
         Written from the table of keys; `BULKHEAD_WRITE_DOCS=1 cargo test -p bulkhead reference` \
         writes it anew.\n[Configuration](config.md) says how layers, trust and ceilings work; \
         `bulkhead config schema` writes the same as a\nJSON Schema.\n",
    );
    let table = |name: &'static str| {
        let of = |key: &Key| key.name.split_once('.').map_or("", |(table, _)| table);
        KEYS.iter().filter(move |it| of(it) == name)
    };
    for (name, says) in TABLES {
        let title =
            if name.is_empty() { "Top level".to_owned() } else { format!("`[{name}]`") };
        let head = format!(
            "\n## {title}\n\n{says}\n\n| key | value | variable | |\n|---|---|---|---|\n"
        );
        text.push_str(&head);
        for key in table(name) {
            let short = key.name.split_once('.').map_or(key.name, |(_, short)| short);
            let variable = key.variable.map_or("–".to_owned(), |it| format!("`{it}`"));
            // Writing to a text cannot fail.
            writeln!(text, "| `{short}` | {} | {variable} | {} |", value(key), key.says)
                .unwrap_or_default();
        }
    }
    text.push_str("\n## `[env]`\n\nVariables that the sandbox starts with, by name.\n");
    text
}

/// The tables, and what is in them.
const TABLES: [(&str, &str); 7] = [
    ("", "What is asked for as a whole."),
    ("limits", "Limits that are insisted on: a backend that cannot hold one refuses."),
    ("ceiling", "The most that any layer or flag may ask for."),
    ("egress", "What may be reached by way of the gateway, and with what."),
    ("rooms", "How many rooms there may be."),
    ("reserve", "What the host keeps for itself: no room is begun that would take of it."),
    ("pool", "Rooms that are made ahead."),
];

/// What a value looks like.
fn value(key: &Key) -> String {
    match key.shape {
        Shape::Size => "a size: `512m`, `4g`, bytes".to_owned(),
        Shape::Count => "a whole number".to_owned(),
        Shape::Number => "a number".to_owned(),
        Shape::Time => "a time: `90s`, `5m`, seconds".to_owned(),
        Shape::Deadline => "a time, or `none`".to_owned(),
        Shape::Name => "a name".to_owned(),
        Shape::Word(words) => {
            let words: Vec<String> = words.iter().map(|it| format!("`{it}`")).collect();
            words.join(", ")
        }
        Shape::Guarantees => "a list of guarantees, or `all`".to_owned(),
        Shape::Shares => "a list of `SRC[:DST][:ro\\|:rw\\|:private]`".to_owned(),
        Shape::Paths => "a list of absolute paths".to_owned(),
        Shape::Texts => "a list of texts".to_owned(),
        Shape::Text => "a text".to_owned(),
    }
}

#[test]
fn the_reference_says_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config-reference.md");
    if std::env::var_os("BULKHEAD_WRITE_DOCS").is_some() {
        fs::write(&path, page()).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, page(), "see the head of {} for how to write it anew", path.display());
}

#[test]
fn every_key_is_in_a_table_of_the_reference() {
    for key in KEYS {
        let table = key.name.split_once('.').map_or("", |(table, _)| table);
        assert!(TABLES.iter().any(|(name, _)| *name == table), "{}", key.name);
    }
}
