//! Go: the version by `go.mod`, C by imports and by modules known for it.

use super::{Fetch, Found, Wanted, words};
use crate::tree::Tree;

/// Modules that are C inside.
const WITH_C: &[&str] = &[
    "github.com/mattn/go-sqlite3",
    "github.com/confluentinc/confluent-kafka-go",
    "github.com/DataDog/zstd",
    "github.com/tecbot/gorocksdb",
    "github.com/linxGnu/grocksdb",
    "github.com/veandco/go-sdl2",
    "github.com/go-gl/gl",
    "github.com/hajimehoshi/ebiten",
    "github.com/google/gopacket",
    "github.com/marcboeker/go-duckdb",
    "gocv.io/x/gocv",
    "fyne.io/fyne",
];

pub(super) fn find(tree: &Tree) -> Found {
    let files = ["go.mod", "go.work"];
    let says = |word: &str| {
        files.iter().find_map(|file| Some((*file, directive(tree.text(file)?, word)?)))
    };
    let exact = says("toolchain")
        .and_then(|(file, version)| Wanted::line(version.strip_prefix("go")?, file));
    // `go 1.22.3` is the least that will do; the newest of that line is what anybody would take.
    let line = || {
        let (file, version) = says("go")?;
        let line: Vec<&str> = version.split('.').take(2).collect();
        Wanted::range(&line.join("."), file)
    };
    let wanted = exact.or_else(line).unwrap_or(Wanted::Any);

    let by_import = tree.imports_c("").map(|file| format!("{file} imports C"));
    let text =
        || tree.names().filter_map(|it| it.ends_with("go.mod").then(|| tree.text(it))?);
    let by_module = || {
        let uses = |module: &&&str| text().any(|it| it.contains(**module));
        WITH_C.iter().find(uses).map(|it| format!("{it} is C inside"))
    };
    let manifest = |it: &&str| {
        let name = it.rsplit('/').next().unwrap_or(it);
        matches!(name, "go.mod" | "go.sum") || matches!(*it, "go.work" | "go.work.sum")
    };
    let all = tree.has("go.work");
    let own = |it: &&str| all || !it.contains('/');
    Found {
        wanted,
        glibc: by_import.or_else(by_module),
        base: None,
        fetch: Fetch {
            copy: tree.names().filter(manifest).filter(own).map(str::to_owned).collect(),
            run: vec![words(["mkdir", "-p", "/opt/go"]), words(["go", "mod", "download"])],
            cache: None,
            keep: vec![("/opt/go", "/opt/go")],
        },
        notes: Vec::new(),
    }
}

/// The value of `go 1.22` or `toolchain go1.22.3`.
fn directive<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let mut words = line.split("//").next()?.split_whitespace();
        (words.next()? == word).then(|| words.next()).flatten()
    })
}
