//! Python: the version by `requires-python` and `.python-version`, the tool by the lock file.

use toml::Table;

use super::{Fetch, Found, Wanted, words};
use crate::tree::{Tree, is_requirements};

const UV: &str = "uv==0.8.13";
const POETRY: &str = "poetry==2.1.4";
const PYTHON: &str = "/opt/venv/bin/python";

/// Packages without anything native, common enough to know; wheels of others are for glibc.
const PURE: &[&str] = &[
    "attrs",
    "black",
    "certifi",
    "click",
    "colorama",
    "django",
    "flask",
    "h11",
    "httpcore",
    "httpx",
    "idna",
    "iniconfig",
    "itsdangerous",
    "jinja2",
    "packaging",
    "pip",
    "platformdirs",
    "pluggy",
    "pygments",
    "pytest",
    "pytest-asyncio",
    "pytest-cov",
    "python-dateutil",
    "requests",
    "rich",
    "setuptools",
    "six",
    "sniffio",
    "starlette",
    "tabulate",
    "toml",
    "tomli",
    "tox",
    "typer",
    "typing-extensions",
    "urllib3",
    "werkzeug",
    "wheel",
];

/// Groups of dependencies that tests need.
const GROUPS: &[&str] = &["dev", "test", "tests", "testing"];

pub(super) fn find(tree: &Tree) -> Found {
    let manifest: Table =
        tree.text("pyproject.toml").and_then(|it| it.parse().ok()).unwrap_or_default();
    let mut notes = Vec::new();
    let fetch = fetch(tree, &manifest, &mut notes);
    Found {
        wanted: version(tree, &manifest),
        glibc: native(tree, &manifest),
        base: None,
        fetch,
        notes,
    }
}

fn version(tree: &Tree, manifest: &Table) -> Wanted {
    let file = ".python-version";
    let own = tree.text(file).and_then(|it| it.lines().find(|it| !it.trim().is_empty()));
    let own = own.map(|it| it.trim().trim_start_matches("cpython-"));
    let requires = || {
        let range = manifest.get("project")?.get("requires-python")?.as_str()?;
        Wanted::range(range, "pyproject.toml (requires-python)")
    };
    let poetry = || {
        let poetry = manifest.get("tool")?.get("poetry")?.get("dependencies")?.get("python")?;
        Wanted::range(poetry.as_str()?, "pyproject.toml (poetry)")
    };
    let own = own.and_then(|it| Wanted::line(it, file));
    own.or_else(requires).or_else(poetry).unwrap_or(Wanted::Any)
}

/// The first requirement that may come as a wheel for glibc.
fn native(tree: &Tree, manifest: &Table) -> Option<String> {
    let mut names: Vec<String> = requirements(manifest);
    for path in tree.names().filter(|it| is_requirements(it)) {
        names.extend(tree.text(path).unwrap_or_default().lines().map(str::to_owned));
    }
    for lock in ["uv.lock", "poetry.lock"] {
        let lock: Option<Table> = tree.text(lock).and_then(|it| it.parse().ok());
        let packages = lock.as_ref().and_then(|it| it.get("package")?.as_array());
        let fetched = |it: &&toml::Value| {
            it.get("source")
                .is_none_or(|it| it.get("virtual").is_none() && it.get("editable").is_none())
        };
        let packages = packages.into_iter().flatten().filter(fetched);
        names.extend(packages.filter_map(|it| Some(it.get("name")?.as_str()?.to_owned())));
    }
    let names = names.iter().filter_map(|it| name_of(it));
    let wheel = |it: &String| !PURE.contains(&it.as_str());
    names.into_iter().find(wheel).map(|it| format!("{it} may come as a wheel for glibc"))
}

/// The name in `Requests[socks] >= 2.0 ; python_version < "3.8"`.
fn name_of(requirement: &str) -> Option<String> {
    let text = requirement.trim();
    if text.starts_with(['#', '-']) {
        return None;
    }
    let end = text.find(|it: char| !it.is_ascii_alphanumeric() && !"._-".contains(it));
    let name = text.get(..end.unwrap_or(text.len()))?.to_ascii_lowercase().replace('_', "-");
    (!name.is_empty()).then_some(name)
}

/// What `pyproject.toml` lists itself.
fn requirements(manifest: &Table) -> Vec<String> {
    let project = manifest.get("project");
    let main = project.and_then(|it| it.get("dependencies"));
    let optional = |group: &&str| project?.get("optional-dependencies")?.get(group);
    let grouped = |group: &&str| manifest.get("dependency-groups")?.get(group);
    let lists = main
        .into_iter()
        .chain(GROUPS.iter().filter_map(optional))
        .chain(GROUPS.iter().filter_map(grouped));
    let items = lists.filter_map(toml::Value::as_array).flatten();
    items.filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

fn fetch(tree: &Tree, manifest: &Table, notes: &mut Vec<String>) -> Fetch {
    // The base has no packages of its own, but for pip; one that has some may lend them.
    let venv = "--system-site-packages";
    let mut run = vec![words(["python3", "-m", "venv", "--without-pip", venv, "/opt/venv"])];
    let pip = |args: &[&str]| {
        let head = [PYTHON, "-m", "pip", "install"];
        head.iter().chain(args).map(|it| (*it).to_owned()).collect::<Vec<String>>()
    };
    let has = |it: &&&str| tree.has(it);
    let mut copy: Vec<String> = Vec::new();
    let mut take = |names: &[&str]| {
        copy.extend(names.iter().filter(has).map(|it| (*it).to_owned()));
    };
    if tree.has("uv.lock") {
        take(&["pyproject.toml", "uv.lock"]);
        run.push(words(["python3", "-m", "pip", "install", UV]));
        let sync = "UV_PROJECT_ENVIRONMENT=/opt/venv UV_LINK_MODE=copy uv sync --frozen \
                    --no-install-project --no-managed-python";
        run.push(words(["sh", "-c", sync]));
    } else if tree.has("poetry.lock") {
        take(&["pyproject.toml", "poetry.lock"]);
        run.push(words(["python3", "-m", "pip", "install", POETRY]));
        run.push(words(["poetry", "install", "--no-root", "--no-interaction", "--no-cache"]));
    } else {
        let lists: Vec<&str> = tree
            .names()
            .filter(|it| is_requirements(it))
            .filter(|it| !it.contains('/') || it.starts_with("requirements/"))
            .collect();
        take(&lists);
        let wanted = requirements(manifest);
        // Constraints are named by those that use them.
        let installed = lists.iter().filter(|it| !it.contains("constraints"));
        let mut args: Vec<&str> = installed.flat_map(|it| ["-r", it]).collect();
        args.extend(wanted.iter().map(String::as_str).filter(|it| !it.starts_with('-')));
        if !args.is_empty() {
            run.push(pip(&args));
        }
        if lists.is_empty() && !wanted.is_empty() {
            notes.push(
                "there is no lock file, so versions of dependencies are not fixed".into(),
            );
        }
        if lists.is_empty() && wanted.is_empty() && !tree.has("pyproject.toml") {
            notes.push("what setup.py or a Pipfile asks for is not installed".to_owned());
        }
    }
    Fetch { copy, run, cache: Some("/root/.cache/pip"), keep: vec![("/opt/venv", "/opt/venv")] }
}
