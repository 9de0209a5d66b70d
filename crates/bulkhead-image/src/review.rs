//! Whether a Dockerfile may be built at all, and what of the project it would see.
//!
//! A Dockerfile is a program for the daemon of the host. Even one that somebody has trusted is
//! refused what no image of a sandbox needs and what builders were attacked with: frontends from
//! elsewhere (CVE-2024-23653, CVE-2026-33747), mounts (CVE-2024-23651, CVE-2024-23652,
//! CVE-2024-1753), downloads by the daemon, and arguments that would take values of the host.

use std::collections::BTreeSet;

/// Names that a builder fills in by itself or that would carry the host's secrets inside.
const HOST_ARGS: &[&str] = &[
    "SSH_AUTH_SOCK",
    "DOCKER_HOST",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "no_proxy",
    "all_proxy",
];
/// Parts of names that say secret.
const SECRET_PARTS: &[&str] = &[
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "API_KEY",
    "APIKEY",
    "CREDENTIAL",
    "PRIVATE_KEY",
];

/// A Dockerfile that was read, with nothing in it that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reviewed {
    stages: Vec<Stage>,
    /// Whether only `BuildKit` understands it.
    pub needs_buildkit: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stage {
    image: String,
    name: Option<String>,
    /// What is copied out of the context, as patterns.
    sources: Vec<String>,
    /// Stages and images that something is copied from.
    from: Vec<String>,
}

/// Why a Dockerfile is not built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Refused {
    /// Which line of the file, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

/// Reads a Dockerfile.
pub fn review(text: &str) -> Result<Reviewed, Refused> {
    let mut reviewed = Reviewed { stages: Vec::new(), needs_buildkit: false };
    directives(text)?;
    for (line, instruction) in instructions(text) {
        let refuse = |why: String| Refused { line, why };
        let (word, rest) = split_word(&instruction);
        reviewed.take(&word.to_ascii_uppercase(), rest).map_err(refuse)?;
    }
    if reviewed.stages.is_empty() {
        return Err(Refused { line: 1, why: "there is no FROM in it".to_owned() });
    }
    Ok(reviewed)
}

impl Reviewed {
    /// The stage to build if nobody says: that of a sandbox, if there is one.
    pub fn default_target(&self) -> Option<&str> {
        let named = self.stages.iter().filter_map(|it| it.name.as_deref());
        named.into_iter().find(|it| *it == crate::dockerfile::SANDBOX_STAGE)
    }

    /// Whether there is a stage `target`.
    pub fn has_stage(&self, target: &str) -> bool {
        self.stages.iter().any(|it| it.name.as_deref() == Some(target))
    }

    /// The images from elsewhere that a build up to `target` starts from or copies from.
    pub fn bases(&self, target: Option<&str>) -> BTreeSet<String> {
        let is_stage = |name: &str| {
            self.has_stage(name) || name.parse().is_ok_and(|it: usize| it < self.stages.len())
        };
        let stages = self.up_to(target);
        let images = stages.iter().flat_map(|it| it.from.iter().chain([&it.image]));
        images.filter(|it| !is_stage(it) && *it != "scratch").cloned().collect()
    }

    /// The patterns of the context's files that a build up to `target` copies.
    pub fn sources(&self, target: Option<&str>) -> BTreeSet<String> {
        self.up_to(target).iter().flat_map(|it| it.sources.iter().cloned()).collect()
    }

    /// A classic builder goes through all stages before the one it is asked for.
    fn up_to(&self, target: Option<&str>) -> &[Stage] {
        let at = target.and_then(|name| {
            self.stages.iter().position(|it| it.name.as_deref() == Some(name))
        });
        at.and_then(|at| self.stages.get(..=at)).unwrap_or(&self.stages)
    }

    fn take(&mut self, word: &str, rest: &str) -> Result<(), String> {
        // Builders differ in what starts one, and what one reads as text another one would do.
        let listed = rest.trim_start().starts_with('[');
        if matches!(word, "RUN" | "COPY" | "ADD") && rest.contains("<<") && !listed {
            return Err("here-documents are not read; put a script into the project".to_owned());
        }
        match word {
            "FROM" => self.from(rest),
            "COPY" => self.copy(rest),
            "ADD" => self.add(rest),
            "RUN" => self.run(rest),
            "ARG" => arg(rest),
            "ONBUILD" => {
                Err("ONBUILD hides instructions in an image; write them out".to_owned())
            }
            "ENV" | "LABEL" | "USER" | "WORKDIR" | "CMD" | "ENTRYPOINT" | "EXPOSE"
            | "SHELL" | "STOPSIGNAL" | "HEALTHCHECK" | "MAINTAINER" | "VOLUME" => Ok(()),
            word => Err(format!("`{}` is no instruction", bulkhead_spec::escape(word))),
        }
    }

    fn from(&mut self, rest: &str) -> Result<(), String> {
        let words: Vec<&str> =
            rest.split_whitespace().filter(|it| !it.starts_with("--")).collect();
        let image = words.first().ok_or("FROM names no image")?;
        if image.contains('$') {
            return Err("FROM takes its image from a variable, so nobody can tell which".into());
        }
        let named = words.get(1).is_some_and(|it| it.eq_ignore_ascii_case("as"));
        let name = words.get(2).filter(|_| named).map(|it| it.to_ascii_lowercase());
        self.stages.push(Stage { image: (*image).to_owned(), name, ..Stage::default() });
        Ok(())
    }

    fn stage(&mut self) -> Result<&mut Stage, String> {
        self.stages.last_mut().ok_or_else(|| "there is no FROM before it".to_owned())
    }

    fn copy(&mut self, rest: &str) -> Result<(), String> {
        let (flags, words) = operands(rest)?;
        let from = flags.iter().find_map(|it| it.strip_prefix("--from="));
        let stage = self.stage()?;
        if let Some(from) = from {
            if from.contains('$') {
                return Err("--from takes its image from a variable".to_owned());
            }
            stage.from.push(from.to_ascii_lowercase());
            return Ok(());
        }
        let sources = words.len().saturating_sub(1);
        for source in words.iter().take(sources) {
            if source.split('/').any(|it| it == "..") {
                return Err("it copies from outside of the context".to_owned());
            }
            // What a variable will be is not known here; all of the context covers it.
            let pattern = if source.contains('$') { "." } else { source };
            stage.sources.push(pattern.to_owned());
        }
        Ok(())
    }

    fn add(&mut self, rest: &str) -> Result<(), String> {
        let (_, words) = operands(rest)?;
        let remote =
            |it: &&String| it.contains("://") || it.starts_with("git@") || it.contains('$');
        if words.iter().any(|it| remote(&it)) {
            return Err("ADD would have the daemon fetch something; fetch it in a RUN, with \
                        --network, or put it into the project"
                .to_owned());
        }
        self.copy(rest)
    }

    fn run(&mut self, rest: &str) -> Result<(), String> {
        self.stage()?;
        for flag in rest.split_whitespace().take_while(|it| it.starts_with("--")) {
            self.needs_buildkit = true;
            if let Some(mount) = flag.strip_prefix("--mount=") {
                self.mount(mount)?;
            } else if let Some(network) = flag.strip_prefix("--network=") {
                if network != "none" {
                    return Err("RUN --network goes around the network of the build".to_owned());
                }
            } else {
                let flag = flag.split('=').next().unwrap_or(flag);
                return Err(format!("RUN {} is not allowed", bulkhead_spec::escape(flag)));
            }
        }
        Ok(())
    }

    fn mount(&mut self, mount: &str) -> Result<(), String> {
        let field = |name: &str| {
            let parts = mount.split(',').filter_map(|it| it.split_once('='));
            parts.into_iter().find(|it| it.0 == name).map(|it| it.1)
        };
        match field("type").unwrap_or("bind") {
            "cache" | "tmpfs" if field("from").is_none() => Ok(()),
            "bind" => {
                let source = field("source").or(field("src")).unwrap_or(".").to_owned();
                if source.starts_with('/') || source.split('/').any(|it| it == "..") {
                    return Err(
                        "RUN --mount=type=bind reaches outside of the context".to_owned()
                    );
                }
                if source.contains('$') {
                    return Err("RUN --mount=type=bind takes its source from a variable".into());
                }
                let stage = self.stage()?;
                match field("from") {
                    Some(from) => stage.from.push(from.to_ascii_lowercase()),
                    None => stage.sources.push(source),
                }
                Ok(())
            }
            kind => {
                let kind = bulkhead_spec::escape(kind);
                Err(format!("RUN --mount=type={kind} would bring something of the host inside"))
            }
        }
    }
}

fn arg(rest: &str) -> Result<(), String> {
    for word in rest.split_whitespace() {
        let name = word.split('=').next().unwrap_or(word);
        let upper = name.to_ascii_uppercase();
        if upper.starts_with("BUILDKIT_") {
            return Err(format!("ARG {name} steers the builder itself"));
        }
        let secret = SECRET_PARTS.iter().any(|it| upper.contains(it));
        if secret || HOST_ARGS.contains(&name) || name.contains('$') {
            let name = bulkhead_spec::escape(name);
            return Err(format!(
                "ARG {name} asks for a value of the host; nothing is passed in"
            ));
        }
    }
    Ok(())
}

/// Refuses comments that tell the builder to be another program.
fn directives(text: &str) -> Result<(), Refused> {
    let text = text.trim_start_matches('\u{feff}');
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        let comment = line.trim_start_matches(['#', '/', '{', '"', ' ', '!']);
        let known =
            comment.split_once(['=', ':']).map(|(name, _)| name.trim_matches(['"', ' ']));
        let name = known.unwrap_or_default().to_ascii_lowercase();
        // BuildKit also reads it after `//` and out of JSON, and after a first line with `#!`.
        if name == "syntax" {
            let why = "`syntax=` has another program read this file; remove the line";
            return Err(Refused { line: at + 1, why: why.to_owned() });
        }
        if name == "escape" {
            let why = "`escape=` changes what the rest of the file means; remove the line";
            return Err(Refused { line: at + 1, why: why.to_owned() });
        }
        if !line.is_empty() && !line.starts_with(['#', '/', '{', '"', '}']) {
            break;
        }
    }
    Ok(())
}

/// The instructions with the lines that they start in: continued lines joined, comments and empty
/// lines left out.
fn instructions(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.starts_with('#') || trimmed.is_empty() {
            continue;
        }
        let (start, mut whole) = open.take().unwrap_or((at + 1, String::new()));
        let continued = trimmed.strip_suffix('\\');
        whole.push_str(continued.unwrap_or(trimmed));
        if continued.is_some() {
            whole.push(' ');
            open = Some((start, whole));
            continue;
        }
        found.push((start, whole));
    }
    found.extend(open);
    found
}

fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.trim())
}

/// The flags and the paths of a `COPY` or `ADD`, in either way to write them.
fn operands(rest: &str) -> Result<(Vec<String>, Vec<String>), String> {
    let mut flags = Vec::new();
    let mut rest = rest.trim();
    while rest.starts_with("--") {
        let (flag, after) = split_word(rest);
        flags.push(flag.to_owned());
        rest = after;
    }
    let words: Vec<String> = if rest.starts_with('[') {
        serde_json::from_str(rest).map_err(|_| "its list is not JSON".to_owned())?
    } else {
        rest.split_whitespace().map(str::to_owned).collect()
    };
    if words.len() < 2 {
        return Err("it needs a source and a target".to_owned());
    }
    Ok((flags, words))
}
