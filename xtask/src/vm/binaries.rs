//! The binaries that go into the guest: static, so that they need nothing of it.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::TARGET;
use super::trials::{Pace, Trial, What};
use crate::programs::{command, output_with_progress, run};
use crate::trouble::Trouble;

/// A binary made by `cargo test --no-run`.
pub(super) struct TestBinary {
    pub(super) package: String,
    /// The library or the file under `tests/` that it tests.
    pub(super) target: String,
    pub(super) path: PathBuf,
    /// The package's directory, where Cargo starts its tests.
    pub(super) directory: PathBuf,
}

impl TestBinary {
    /// The command that runs all its tests but those with one of `except` in their name.
    pub(super) fn command(&self, pace: Pace, except: &[&str]) -> Vec<String> {
        let mut command = vec![self.path.to_string_lossy().into_owned()];
        match pace {
            Pace::Together => {}
            Pace::OneByOne => command.push("--test-threads=1".to_owned()),
        }
        for part in except {
            command.extend(["--skip", part].map(str::to_owned));
        }
        command
    }

    /// What Cargo sets for a test when it runs, and what a test would ask Cargo for.
    pub(super) fn environment(&self, root: &Path) -> Vec<(String, String)> {
        let directory = self.directory.to_string_lossy();
        let root = root.to_string_lossy();
        [
            ("CARGO_MANIFEST_DIR", directory.as_ref()),
            ("CARGO_PKG_NAME", &self.package),
            ("RUST_BACKTRACE", "1"),
            // The source is read-only there.
            ("INSTA_UPDATE", "no"),
            ("INSTA_WORKSPACE_ROOT", &root),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }
}

/// Builds what the trials need and gives back the test binaries among it.
pub(super) fn build(root: &Path, trials: &[&Trial]) -> Result<Vec<TestBinary>, Trouble> {
    if trials.iter().any(|it| matches!(it.what, What::BulkheadScript(_))) {
        run(command("cargo")
            .current_dir(root)
            .args(["build", "--release", "--package", "bulkhead"])
            .args(["--target", TARGET, "--target-dir", "target"]))?;
    }
    let packages: Vec<_> = trials
        .iter()
        .filter(|it| matches!(it.what, What::TestsOfPackage(_)))
        .map(|it| it.name)
        .collect();
    if packages.is_empty() {
        return Ok(Vec::new());
    }
    let mut cargo = command("cargo");
    cargo
        .current_dir(root)
        .args(["test", "--no-run", "--message-format", "json-render-diagnostics"])
        .args(["--target", TARGET, "--target-dir", "target"]);
    for package in packages {
        cargo.args(["--package", package]);
    }
    Ok(test_binaries(&output_with_progress(&mut cargo)?))
}

/// A line of Cargo's JSON output, as far as it matters here.
#[derive(Deserialize)]
struct Artifact {
    executable: Option<PathBuf>,
    manifest_path: PathBuf,
    profile: Profile,
    target: Target,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

fn test_binaries(messages: &str) -> Vec<TestBinary> {
    messages
        .lines()
        // Messages of other kinds lack these fields.
        .filter_map(|line| serde_json::from_str::<Artifact>(line).ok())
        .filter(|it| it.profile.test)
        .filter_map(|it| {
            let directory = it.manifest_path.parent()?.to_owned();
            Some(TestBinary {
                package: directory.file_name()?.to_string_lossy().into_owned(),
                target: format!("{} {}", it.target.kind.first()?, it.target.name),
                path: it.executable?,
                directory,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_binaries_are_taken_from_what_cargo_says() {
        let messages = r#"
{"reason":"compiler-artifact","manifest_path":"/r/crates/a/Cargo.toml","target":{"kind":["lib"],"name":"a"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/r/crates/a/Cargo.toml","target":{"kind":["bin"],"name":"tool"},"profile":{"test":false},"executable":"/r/target/tool"}
{"reason":"compiler-artifact","manifest_path":"/r/crates/a/Cargo.toml","target":{"kind":["test"],"name":"it"},"profile":{"test":true},"executable":"/r/target/it-1"}
{"reason":"build-finished","success":true}
"#;
        let found: Vec<_> = test_binaries(messages)
            .into_iter()
            .map(|it| (it.package, it.target, it.path, it.directory))
            .collect();
        assert_eq!(
            found,
            [(
                "a".to_owned(),
                "test it".to_owned(),
                PathBuf::from("/r/target/it-1"),
                PathBuf::from("/r/crates/a"),
            )]
        );
    }
}
