//! A Dockerfile for a project: dependencies before source, nobody's root, every base pinned.
//!
//! What comes from the project's files goes into it only as a JSON list of arguments or as a name
//! without any meaning to a shell or to the builder.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::project::{Flavour, Language, Project, Table, inspect};
use crate::tree::Tree;

/// Where the source is inside.
pub const WORKSPACE: &str = "/workspace";
/// Who programs are inside, if nobody says otherwise.
pub const USER: u32 = 10_000;
/// The stage that a sandbox runs in: toolchain and dependencies, without the source.
pub const SANDBOX_STAGE: &str = "sandbox";
/// The label that says what a generated file is for.
const LANGUAGE_LABEL: &str = "io.bulkhead.language";

/// What is left out of every build: what is made again inside, and what nobody else should see.
pub const IGNORE: &str = "\
# Written by `bulkhead image init`.
.git
.bulkhead
**/.env
**/.env.*
**/.netrc
**/.npmrc
**/.pypirc
**/.ssh
**/.aws
**/.azure
**/.config/gcloud
**/.kube
**/.docker
**/*.pem
**/*.key
**/id_rsa*
**/id_ed25519*
**/node_modules
**/target
**/.venv
**/venv
**/__pycache__
**/*.pyc
**/.pytest_cache
**/.gradle
**/.tox
**/.DS_Store
";

/// Whether the builder can keep a directory between builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheMounts {
    /// `BuildKit` can.
    Kept,
    /// The classic builder only has layers.
    None,
}

/// Digests by reference, where they are known.
pub type Pins = BTreeMap<String, String>;

/// The images that the file for `project` starts from: to fetch with, and to run in.
pub fn bases(project: &Project) -> (String, String) {
    let alpine = project.glibc.is_none();
    if let Some(base) = project.base {
        let image = base.replace("{line}", &project.release.line);
        let image = if alpine { format!("{image}-alpine") } else { image };
        return (image.clone(), image);
    }
    let table = Table::of(project.language);
    let image = |flavour| table.image(&project.release, flavour);
    if alpine {
        (image(Flavour::Alpine), image(Flavour::Alpine))
    } else {
        (image(Flavour::DebianWithCompilers), image(Flavour::Debian))
    }
}

/// The Dockerfile of `project`.
pub fn render(project: &Project, pins: &Pins, mounts: CacheMounts) -> String {
    let (build, run) = bases(project);
    let table = Table::of(project.language);
    let mut parts = vec![header(project, &[&build, &run], pins)];
    let stage = |image: &str, name: &str| {
        let pinned =
            pins.get(image).map_or_else(|| image.to_owned(), |it| format!("{image}@{it}"));
        format!("\nFROM {pinned} AS {name}\n{}", variables(table.env))
    };
    parts.push(stage(&build, "dependencies"));
    parts.push(format!("WORKDIR {WORKSPACE}\n"));
    parts.push(copies(&project.fetch.copy));
    for step in &project.fetch.run {
        let mount = match (mounts, project.fetch.cache) {
            (CacheMounts::Kept, Some(cache)) => format!("--mount=type=cache,target={cache} "),
            (CacheMounts::Kept, None) | (CacheMounts::None, _) => String::new(),
        };
        parts.push(format!("RUN {mount}{}\n", json(step)));
    }
    parts.push(stage(&run, SANDBOX_STAGE));
    parts.push(variables(table.offline));
    parts.push(user());
    for (from, to) in &project.fetch.keep {
        parts.push(format!("COPY --from=dependencies {from} {to}\n"));
    }
    parts.push(labels(project, &run));
    parts.push(format!("USER {USER}:{USER}\nWORKDIR {WORKSPACE}\n"));
    parts.push(format!("\nFROM {SANDBOX_STAGE} AS app\nCOPY --chown={USER}:{USER} . .\n"));
    parts.concat()
}

/// The file again, as it would be written for what `tree` holds today, with the choices that the
/// file `old` shows: its language, its cache mounts and its digests.
pub fn render_again(tree: &Tree, project: &Project, old: &str, pins: &Pins) -> String {
    let mut pins = pins.clone();
    for word in old.split_whitespace() {
        if let Some((image, digest)) =
            word.split_once('@').filter(|it| it.1.starts_with("sha256:"))
        {
            pins.insert(image.to_owned(), digest.to_owned());
        }
    }
    let mounts =
        if old.contains("--mount=type=cache") { CacheMounts::Kept } else { CacheMounts::None };
    let said = old.split(&format!("{LANGUAGE_LABEL}=\"")).nth(1);
    let said =
        said.and_then(|it| it.split('"').next()).and_then(|it| it.parse::<Language>().ok());
    match said {
        Some(language) if language != project.language => {
            render(&inspect(tree, &project.dir, language), &pins, mounts)
        }
        Some(_) | None => render(project, &pins, mounts),
    }
}

/// What `new` has and `old` has not, and the other way round; comments count for nothing.
pub fn drift(old: &str, new: &str) -> Vec<String> {
    let lines = |text: &str| -> Vec<String> {
        let fine = |it: &&str| !it.is_empty() && !it.starts_with('#');
        text.lines().map(str::trim).filter(fine).map(str::to_owned).collect()
    };
    let (old, new) = (lines(old), lines(new));
    let gone = old.iter().filter(|it| !new.contains(it)).map(|it| format!("- {it}"));
    let come = new.iter().filter(|it| !old.contains(it)).map(|it| format!("+ {it}"));
    let mut drift: Vec<String> = gone.chain(come).collect();
    if drift.is_empty() && old != new {
        drift.push("the same lines in another order".to_owned());
    }
    drift
}

fn header(project: &Project, bases: &[&str; 2], pins: &Pins) -> String {
    let mut text = String::from(
        "# Written by `bulkhead image init` from the project's own files;\n\
         # `bulkhead image init --check` says when it no longer fits them.\n#\n",
    );
    let release = &project.release;
    let mut say = |line: &str| writeln!(text, "# {line}").unwrap_or_default();
    say(&format!("{} {}: {}.", project.language, release.version, release.because));
    match &project.glibc {
        Some(why) => say(&format!("Debian: {why}.")),
        None => say("Alpine: nothing here needs glibc."),
    }
    if !release.known {
        say("This release is not one that Bulkhead knows: see that the image exists.");
    }
    if bases.iter().any(|it| !pins.contains_key(*it)) {
        say("Pinned by exact tag: no digest could be resolved when this was written.");
    }
    text
}

fn variables(variables: &[(&str, &str)]) -> String {
    let line = |(name, value): &(&str, &str)| format!("ENV {name}=\"{value}\"\n");
    variables.iter().map(line).collect()
}

/// One `COPY` per directory, because a list of files goes to one place.
fn copies(files: &[String]) -> String {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for file in files {
        let place = file.rsplit_once('/').map_or("", |(dir, _)| dir);
        places.entry(place).or_default().push(file);
    }
    let line = |(place, files): (&&str, &Vec<&str>)| match *place {
        "" => format!("COPY {} ./\n", files.join(" ")),
        place => format!("COPY {} ./{place}/\n", files.join(" ")),
    };
    places.iter().map(line).collect()
}

/// Made without `useradd`, which writes today's date, and in a way that both systems have.
fn user() -> String {
    format!(
        "RUN echo 'sandbox:x:{USER}:{USER}::/home/sandbox:/bin/sh' >> /etc/passwd \\\n\
         \x20   && echo 'sandbox:x:{USER}:' >> /etc/group \\\n\
         \x20   && mkdir -p /home/sandbox {WORKSPACE} \\\n\
         \x20   && chown {USER}:{USER} /home/sandbox {WORKSPACE}\n"
    )
}

fn labels(project: &Project, base: &str) -> String {
    let Project { language, release, .. } = project;
    format!(
        "LABEL org.opencontainers.image.title=\"{language} sandbox\" \\\n\
         \x20     org.opencontainers.image.description=\"{language} {} for bulkhead run\" \\\n\
         \x20     org.opencontainers.image.base.name=\"{base}\" \\\n\
         \x20     {LANGUAGE_LABEL}=\"{language}\"\n",
        release.version
    )
}

/// A list of arguments that no shell reads.
fn json(words: &[String]) -> String {
    let words: Vec<String> =
        words.iter().map(|it| serde_json::Value::from(it.as_str()).to_string()).collect();
    format!("[{}]", words.join(", "))
}
