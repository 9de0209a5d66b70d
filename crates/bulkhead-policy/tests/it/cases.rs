//! Each file in `cases` asks something of a policy; the snapshot beside it is the answer.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use bulkhead_policy::{Denial, Policy, resolve};
use serde_json::{Value, json};

use crate::ask::Case;

fn answer(case: Case) -> Result<Value, Denial> {
    let layers = case.policy.into_iter().map(Policy::from);
    let policy = layers.reduce(Policy::narrowed_by).unwrap_or_default();
    let plan = resolve(case.ask.into(), &policy)?;
    if let Some(exec) = case.exec {
        return Ok(json!({ "exec": plan.admit(exec.into())? }));
    }
    let Some(upheld) = case.upheld else { return Ok(json!({ "plan": plan })) };
    Ok(match plan.settle(&upheld) {
        Ok(settled) => json!({
            "limits": settled.plan.limits(),
            "require": settled.plan.require(),
            "prefer": settled.plan.prefer(),
            "missing": settled.missing,
        }),
        Err(lacking) => json!({ "lacking": lacking }),
    })
}

fn files(extension: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cases");
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|it| it.unwrap().path()).collect();
    files.retain(|it| it.extension() == Some(OsStr::new(extension)));
    files.sort();
    files
}

fn stems(extension: &str) -> BTreeSet<String> {
    let stem = |it: PathBuf| it.file_stem().unwrap().to_str().unwrap().to_owned();
    files(extension).into_iter().map(stem).collect()
}

#[test]
fn each_case_has_its_answer() {
    for file in files("toml") {
        let text = fs::read_to_string(&file).unwrap();
        let case: Case =
            toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let claim = case.claim.clone();
        let answer =
            answer(case).unwrap_or_else(|denial| json!({ "denied": denial.to_string() }));
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("cases");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.set_description(claim);
        let name = file.file_stem().unwrap().to_str().unwrap();
        let answer = serde_json::to_string_pretty(&answer).unwrap();
        settings.bind(|| insta::assert_snapshot!(name, answer));
    }
}

#[test]
fn no_answer_is_left_without_its_case() {
    assert!(!stems("toml").is_empty());
    assert_eq!(stems("snap"), stems("toml"));
}
