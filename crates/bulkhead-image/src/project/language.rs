//! The languages, one table each: how they are recognised and which images they have.

use std::{fmt, str::FromStr};

use crate::{range, tree::Tree};

/// What a project can be written in. The order is that of precedence in one directory: what is
/// compiled and shipped before what tools are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    /// Go, by `go.mod`.
    Go,
    /// Rust, by `Cargo.toml`.
    Rust,
    /// Java, by Maven's or Gradle's file.
    Java,
    /// Python, by `pyproject.toml` and its elders.
    Python,
    /// Node.js, by `package.json`.
    Node,
}

impl Language {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Go, Self::Rust, Self::Java, Self::Python, Self::Node];

    /// Whether `dir` of `tree` is a project of it.
    pub(crate) fn is_at(self, tree: &Tree, dir: &str) -> bool {
        let at = |name: &&str| match dir {
            "" => tree.has(name),
            dir => tree.has(&format!("{dir}/{name}")),
        };
        Table::of(self).markers.iter().any(at)
    }

    /// Whether the project at the top of `tree` has others below that belong to it.
    pub(crate) fn is_workspace(self, tree: &Tree) -> bool {
        let says = |file: &str, word: &str| tree.text(file).is_some_and(|it| it.contains(word));
        match self {
            Self::Go => tree.has("go.work"),
            Self::Rust => says("Cargo.toml", "[workspace"),
            Self::Java => {
                says("pom.xml", "<modules>")
                    || tree.has("settings.gradle")
                    || tree.has("settings.gradle.kts")
            }
            Self::Python => says("pyproject.toml", "[tool.uv.workspace"),
            Self::Node => {
                says("package.json", "\"workspaces\"") || tree.has("pnpm-workspace.yaml")
            }
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Table::of(*self).name)
    }
}

impl FromStr for Language {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|it| Table::of(*it).name == text);
        found.ok_or_else(|| "there are go, rust, java, python and node".to_owned())
    }
}

/// What is the same for all projects of a language.
pub(crate) struct Table {
    /// How it is called.
    pub(crate) name: &'static str,
    /// Files that make a directory a project of it.
    pub(crate) markers: &'static [&'static str],
    /// Its official image.
    image: &'static str,
    /// The releases that are known here, oldest first.
    releases: &'static [Release],
    /// The line that is taken where nobody says otherwise.
    default: &'static str,
    /// Tags: on Alpine; on Debian, to run; on Debian, with compilers.
    tags: Tags,
    /// Variables of every image of it.
    pub(crate) env: &'static [(&'static str, &'static str)],
    /// Variables for what only happens when a sandbox runs: nothing is fetched any more.
    pub(crate) offline: &'static [(&'static str, &'static str)],
}

struct Release {
    line: &'static str,
    version: &'static str,
    alpine: Option<&'static str>,
}

/// `{v}` is the version, `{a}` Alpine's.
struct Tags {
    alpine: &'static str,
    run: &'static str,
    build: &'static str,
}

const fn release(
    line: &'static str,
    version: &'static str,
    alpine: Option<&'static str>,
) -> Release {
    Release { line, version, alpine }
}

const GO: Table = Table {
    name: "go",
    markers: &["go.mod", "go.work"],
    image: "golang",
    releases: &[
        release("1.20", "1.20.14", Some("3.19")),
        release("1.21", "1.21.13", Some("3.20")),
        release("1.22", "1.22.12", Some("3.21")),
        release("1.23", "1.23.12", Some("3.22")),
        release("1.24", "1.24.6", Some("3.22")),
        release("1.25", "1.25.1", Some("3.22")),
    ],
    default: "1.24",
    tags: Tags { alpine: "{v}-alpine{a}", run: "{v}-bookworm", build: "{v}-bookworm" },
    env: &[("GOTOOLCHAIN", "local"), ("GOMODCACHE", "/opt/go"), ("GOCACHE", "/tmp/go-build")],
    // Whose repository it is says nothing about the build.
    offline: &[("GOFLAGS", "-buildvcs=false"), ("GOPROXY", "off")],
};

const RUST: Table = Table {
    name: "rust",
    markers: &["Cargo.toml"],
    image: "rust",
    releases: &[
        release("1.70", "1.70.0", Some("3.18")),
        release("1.75", "1.75.0", Some("3.19")),
        release("1.80", "1.80.1", Some("3.20")),
        release("1.85", "1.85.1", Some("3.21")),
        release("1.89", "1.89.0", Some("3.22")),
    ],
    default: "1.89",
    tags: Tags { alpine: "{v}-alpine{a}", run: "{v}-slim-bookworm", build: "{v}-bookworm" },
    env: &[("CARGO_HOME", "/opt/cargo"), ("CARGO_TARGET_DIR", "/tmp/target")],
    offline: &[("CARGO_NET_OFFLINE", "true")],
};

const JAVA: Table = Table {
    name: "java",
    markers: &["pom.xml", "build.gradle", "build.gradle.kts"],
    image: "eclipse-temurin",
    releases: &[
        release("8", "8u462-b08-jdk", Some("3.22")),
        release("11", "11.0.28_6-jdk", Some("3.22")),
        release("17", "17.0.16_8-jdk", Some("3.22")),
        release("21", "21.0.8_9-jdk", Some("3.22")),
    ],
    default: "21",
    tags: Tags { alpine: "{v}-alpine-{a}", run: "{v}-jammy", build: "{v}-jammy" },
    env: &[],
    offline: &[
        ("MAVEN_ARGS", "--offline -Dmaven.repo.local=/opt/m2"),
        ("GRADLE_RO_DEP_CACHE", "/opt/gradle/caches"),
        ("GRADLE_USER_HOME", "/tmp/gradle"),
    ],
};

const PYTHON: Table = Table {
    name: "python",
    markers: &["pyproject.toml", "requirements.txt", "setup.py", "setup.cfg", "Pipfile"],
    image: "python",
    releases: &[
        release("3.9", "3.9.23", Some("3.22")),
        release("3.10", "3.10.18", Some("3.22")),
        release("3.11", "3.11.13", Some("3.22")),
        release("3.12", "3.12.11", Some("3.22")),
        release("3.13", "3.13.7", Some("3.22")),
    ],
    default: "3.12",
    tags: Tags { alpine: "{v}-alpine{a}", run: "{v}-slim-bookworm", build: "{v}-bookworm" },
    env: &[
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PIP_NO_COMPILE", "1"),
        ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
        ("VIRTUAL_ENV", "/opt/venv"),
        ("PATH", "/opt/venv/bin:$PATH"),
    ],
    offline: &[("PIP_NO_INDEX", "1"), ("PYTEST_ADDOPTS", "-p no:cacheprovider")],
};

const NODE: Table = Table {
    name: "node",
    markers: &["package.json"],
    image: "node",
    releases: &[
        release("18", "18.20.8", Some("3.21")),
        release("20", "20.19.4", Some("3.22")),
        release("22", "22.18.0", Some("3.22")),
        release("24", "24.6.0", Some("3.22")),
    ],
    default: "22",
    tags: Tags { alpine: "{v}-alpine{a}", run: "{v}-bookworm-slim", build: "{v}-bookworm" },
    // Node looks for packages in every directory above a file, and the last one is the root.
    env: &[
        ("PATH", "/node_modules/.bin:$PATH"),
        ("npm_config_update_notifier", "false"),
        ("npm_config_cache", "/tmp/npm"),
    ],
    offline: &[("npm_config_offline", "true")],
};

impl Table {
    /// The table of `language`.
    pub(crate) fn of(language: Language) -> &'static Self {
        match language {
            Language::Go => &GO,
            Language::Rust => &RUST,
            Language::Java => &JAVA,
            Language::Python => &PYTHON,
            Language::Node => &NODE,
        }
    }

    /// The release for `wanted`.
    pub(crate) fn pin(&self, wanted: &Wanted) -> Pinned {
        let newest = self.releases.last();
        let default = self.releases.iter().find(|it| it.line == self.default).or(newest);
        let known = |it: &Release| Pinned {
            version: it.version.to_owned(),
            line: it.line.to_owned(),
            alpine: it.alpine,
            because: wanted.because(),
            known: true,
        };
        let chosen = match wanted {
            Wanted::Any => default.map(known),
            Wanted::Exact { version, .. } => {
                self.releases.iter().find(|it| it.version == version).map(known)
            }
            Wanted::Range { range, .. } => {
                let fits = |it: &&Release| range::holds(range, &it.plain());
                let preferred = default.filter(fits);
                preferred.or_else(|| self.releases.iter().rev().find(fits)).map(known)
            }
        };
        chosen.unwrap_or_else(|| self.unknown(wanted, newest.and_then(|it| it.alpine)))
    }

    /// A release that is not in the table: taken as the project says it, if that is a version.
    fn unknown(&self, wanted: &Wanted, alpine: Option<&'static str>) -> Pinned {
        let said = match wanted {
            Wanted::Exact { version, .. } => Some(version.as_str()),
            Wanted::Range { range, .. } => range
                .split(|it: char| !it.is_ascii_digit() && it != '.')
                .find(|it| !it.is_empty()),
            Wanted::Any => None,
        };
        let version = said.filter(|it| is_version(it)).unwrap_or(self.default);
        Pinned {
            version: version.to_owned(),
            line: version.to_owned(),
            alpine: alpine.filter(|_| self.name != "java"),
            because: wanted.because(),
            known: false,
        }
    }

    /// The reference of an image with this release.
    pub(crate) fn image(&self, release: &Pinned, flavour: Flavour) -> String {
        let (tag, alpine) = match (flavour, release.alpine) {
            (Flavour::Alpine, Some(alpine)) => (self.tags.alpine, alpine),
            (Flavour::Alpine, None) | (Flavour::Debian, _) => (self.tags.run, ""),
            (Flavour::DebianWithCompilers, _) => (self.tags.build, ""),
        };
        let tag = tag.replace("{v}", &release.version).replace("{a}", alpine);
        format!("{}:{tag}", self.image)
    }
}

impl Release {
    /// The version as numbers: Java's tags have more than that.
    fn plain(&self) -> String {
        let numbers = self.version.split(['u', '_', '-']).next().unwrap_or(self.line);
        numbers.to_owned()
    }
}

/// Which system lies under the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// Alpine: small, with musl.
    Alpine,
    /// Debian with what is needed to run.
    Debian,
    /// Debian with what is needed to compile native parts.
    DebianWithCompilers,
}

/// What a project asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Exactly this.
    Exact { version: String, because: String },
    /// Anything in a range.
    Range { range: String, because: String },
    /// It does not say.
    Any,
}

impl Wanted {
    /// Exactly `version`, by `file`; or nothing if that is no version.
    pub(crate) fn exact(version: &str, file: &str) -> Option<Self> {
        let version = version.trim().trim_start_matches('v');
        is_version(version).then(|| Self::Exact {
            version: version.to_owned(),
            because: format!("{file} says {version}"),
        })
    }

    /// A version if it is a whole one, else all of its line.
    pub(crate) fn line(version: &str, file: &str) -> Option<Self> {
        let version = version.trim().trim_start_matches('v');
        if version.matches('.').count() >= 2 {
            return Self::exact(version, file);
        }
        Self::range(version, file)
    }

    /// Anything in `range`, by `file`.
    pub(crate) fn range(range: &str, file: &str) -> Option<Self> {
        let range = range.trim();
        let known = |it: char| it.is_ascii_alphanumeric() || " .,<>=!~^|*-".contains(it);
        (!range.is_empty() && range.len() <= 64 && range.chars().all(known)).then(|| {
            Self::Range { range: range.to_owned(), because: format!("{file} says {range}") }
        })
    }

    fn because(&self) -> String {
        match self {
            Self::Exact { because, .. } | Self::Range { because, .. } => because.clone(),
            Self::Any => "the project does not say".to_owned(),
        }
    }
}

/// A release that was decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// Which.
    pub version: String,
    /// Which line of releases it belongs to.
    pub(crate) line: String,
    /// The Alpine that there is an image for.
    pub(crate) alpine: Option<&'static str>,
    /// Who says so.
    pub because: String,
    /// Whether this Bulkhead knows of the release; otherwise its image may not be there.
    pub known: bool,
}

/// Only what can stand in the tag of an image.
fn is_version(text: &str) -> bool {
    text.len() <= 32
        && text.starts_with(|it: char| it.is_ascii_digit())
        && text.chars().all(|it| it.is_ascii_alphanumeric() || it == '.')
}
