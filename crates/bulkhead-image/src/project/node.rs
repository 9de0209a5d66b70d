//! Node.js: the version by `engines`, `.nvmrc` and the like, the tool by the lock file.

use serde_json::Value;

use super::{Fetch, Found, Wanted, words};
use crate::tree::Tree;

/// Packages that compile or fetch something native when they are installed.
const NATIVE: &[&str] = &[
    "node-gyp",
    "node-addon-api",
    "nan",
    "bcrypt",
    "better-sqlite3",
    "sqlite3",
    "sharp",
    "canvas",
    "node-sass",
    "argon2",
    "bufferutil",
    "utf-8-validate",
    "fsevents-native",
    "leveldown",
    "node-pty",
    "puppeteer",
    "playwright",
    "electron",
    "cypress",
    "re2",
    "grpc",
    "zeromq",
    "serialport",
    "usb",
    "keytar",
    "node-rdkafka",
    "snappy",
    "isolated-vm",
    "cpu-features",
    "@tensorflow/tfjs-node",
    "@prisma/client",
    "prisma",
    "oracledb",
    "ibm_db",
    "libxmljs",
];

/// Taken where `packageManager` names no version.
const PNPM: &str = "9.15.9";

pub(super) fn find(tree: &Tree) -> Found {
    let manifest: Value = tree
        .text("package.json")
        .and_then(|it| serde_json::from_str(it).ok())
        .unwrap_or_default();
    let mut notes = Vec::new();
    let glibc = native(tree, &manifest);
    let scripts = if glibc.is_some() { Scripts::Run } else { Scripts::Ignored };
    let fetch = fetch(tree, &manifest, scripts, &mut notes);
    if manifest.get("workspaces").is_some() || tree.has("pnpm-workspace.yaml") {
        notes.push(
            "packages of the workspace itself are found only from the workspace".to_owned(),
        );
    }
    Found { wanted: version(tree, &manifest), glibc, base: None, fetch, notes }
}

fn version(tree: &Tree, manifest: &Value) -> Wanted {
    for file in [".nvmrc", ".node-version"] {
        let said = tree.text(file).map(|it| it.trim().trim_start_matches('v'));
        if let Some(wanted) = said.and_then(|it| Wanted::line(it, file)) {
            // `lts/iron` and the like name a line by a word that has no number in it.
            if said.is_some_and(|it| it.starts_with(|it: char| it.is_ascii_digit())) {
                return wanted;
            }
        }
    }
    let volta = manifest.pointer("/volta/node").and_then(Value::as_str);
    let volta = volta.and_then(|it| Wanted::exact(it, "package.json (volta)"));
    let engines = || {
        let range = manifest.pointer("/engines/node")?.as_str()?;
        Wanted::range(range, "package.json (engines)")
    };
    volta.or_else(engines).unwrap_or(Wanted::Any)
}

/// The first package that is not only JavaScript.
fn native(tree: &Tree, manifest: &Value) -> Option<String> {
    if tree.has("binding.gyp") {
        return Some("binding.gyp compiles a native module".to_owned());
    }
    let says = |name: &str| format!("{} has native parts", bulkhead_spec::escape(name));
    let direct = ["dependencies", "devDependencies", "optionalDependencies"];
    let direct = direct.iter().filter_map(|it| manifest.get(it)?.as_object());
    let mut direct = direct.flat_map(|it| it.keys());
    if let Some(name) = direct.find(|it| NATIVE.contains(&it.as_str())) {
        return Some(says(name));
    }
    let lock: Value = serde_json::from_str(tree.text("package-lock.json")?).ok()?;
    let packages = lock.get("packages")?.as_object()?;
    packages.iter().find_map(|(path, about)| {
        let name = path.rsplit("node_modules/").next().unwrap_or(path);
        let scripted = about.get("hasInstallScript").and_then(Value::as_bool) == Some(true);
        // One for macOS only, that is in half of all lock files.
        let counts = scripted && !path.is_empty() && name != "fsevents";
        (counts || NATIVE.contains(&name)).then(|| says(name))
    })
}

/// How one tool installs: which files it reads, what is run, where it keeps what it fetched.
struct Tool {
    reads: &'static [&'static str],
    run: Vec<Vec<String>>,
    cache: &'static str,
}

fn fetch(tree: &Tree, manifest: &Value, scripts: Scripts, notes: &mut Vec<String>) -> Fetch {
    let named = manifest.get("packageManager").and_then(Value::as_str).unwrap_or_default();
    let version = |tool: &str| {
        let (name, version) = named.split_once('@')?;
        let version = version.split('+').next()?;
        (name == tool && Wanted::exact(version, "").is_some()).then_some(version)
    };
    let mut tool = if tree.has("pnpm-lock.yaml") {
        pnpm(version("pnpm").unwrap_or(PNPM))
    } else if tree.has("yarn.lock") {
        yarn(version("yarn").filter(|it| !it.starts_with("1.")))
    } else {
        npm(tree, notes)
    };
    // The last one installs.
    if let Some(install) = tool.run.last_mut() {
        match scripts {
            Scripts::Run => {}
            Scripts::Ignored if install.first().is_some_and(|it| it == "sh") => {}
            Scripts::Ignored => install.push("--ignore-scripts".to_owned()),
        }
    }
    tool.run.push(words(["mkdir", "-p", "node_modules"]));
    let manifests = tree
        .names()
        .filter(|it| *it == "package.json" || it.ends_with("/package.json"))
        .filter(|it| !it.contains('/') || super::Language::Node.is_workspace(tree));
    let locks = tool.reads.iter().copied().filter(|it| tree.has(it));
    Fetch {
        copy: manifests.chain(locks).map(str::to_owned).collect(),
        run: tool.run,
        cache: Some(tool.cache),
        keep: vec![("/workspace/node_modules", "/node_modules")],
    }
}

/// Whether what a dependency wants to run when it is installed is run: as root, with a network.
#[derive(Clone, Copy)]
enum Scripts {
    /// Native parts need it.
    Run,
    /// Nothing does.
    Ignored,
}

fn pnpm(version: &str) -> Tool {
    let install = ["pnpm", "install", "--frozen-lockfile", "--config.node-linker=hoisted"];
    Tool {
        reads: &["pnpm-lock.yaml", "pnpm-workspace.yaml"],
        run: vec![
            words(["npm", "install", "--global", &format!("pnpm@{version}")]),
            words(install),
        ],
        cache: "/root/.local/share/pnpm/store",
    }
}

/// The first yarn, unless the project names a later one.
fn yarn(later: Option<&str>) -> Tool {
    let run = match later {
        None => vec![words(["yarn", "install", "--frozen-lockfile", "--non-interactive"])],
        Some(version) => vec![
            words(["corepack", "prepare", &format!("yarn@{version}"), "--activate"]),
            words([
                "sh",
                "-c",
                "YARN_NODE_LINKER=node-modules YARN_ENABLE_SCRIPTS=false yarn install --immutable",
            ]),
        ],
    };
    Tool { reads: &["yarn.lock"], run, cache: "/usr/local/share/.cache" }
}

fn npm(tree: &Tree, notes: &mut Vec<String>) -> Tool {
    let locked = tree.has("package-lock.json") || tree.has("npm-shrinkwrap.json");
    let install = if locked {
        words(["npm", "ci", "--no-audit", "--no-fund"])
    } else {
        notes.push("there is no lock file, so versions of dependencies are not fixed".into());
        words(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"])
    };
    Tool {
        reads: &["package-lock.json", "npm-shrinkwrap.json"],
        run: vec![install],
        cache: "/tmp/npm",
    }
}
