//! Templates while they are built.
//!
//! A build is a room in which the steps are done one after the other; its disk at the end is what
//! rooms of the template begin with. The room is as walled as any other.

mod cache;
mod copy;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use bulkhead_engine::rooms::{Client, ClientError, Reply};
use bulkhead_spec::{Ending, Exec, Span};
use serde::Deserialize;

pub(crate) use self::cache::{Cache, Done};
use crate::{
    house::{House, Workshop},
    locked::locked,
    templates::{Template, Version},
};

/// The most lines of a build that are kept.
const LINES: usize = 10_000;
/// The longest line.
const LINE: usize = 4096;
/// How long one step may take.
const STEP: Duration = Duration::from_hours(1);
/// How long a start command may take to be ready, and how often that is asked.
const READY: Duration = Duration::from_mins(10);
const ASK: Duration = Duration::from_secs(2);
/// Where steps begin.
const HOME: &str = "/home/user";
/// The most builds that are remembered.
const KEPT: usize = 256;

/// What is to be built.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Recipe {
    pub(crate) from_image: Option<String>,
    pub(crate) from_template: Option<String>,
    pub(crate) from_image_registry: Option<serde_json::Value>,
    #[serde(default)]
    pub(crate) steps: Vec<Step>,
    pub(crate) start_cmd: Option<String>,
    pub(crate) ready_cmd: Option<String>,
    /// Whether nothing may be taken from what was built before.
    force: Option<bool>,
}

/// One step.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Step {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    args: Vec<String>,
    files_hash: Option<String>,
    /// Whether it must be done again, though it was done before.
    force: Option<bool>,
}

/// How far a build is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Waiting,
    Building,
    Ready,
    /// It failed at this step, for this reason.
    Failed {
        step: String,
        why: String,
    },
}

/// Something that a build says.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) at: SystemTime,
    pub(crate) level: &'static str,
    pub(crate) text: String,
    pub(crate) step: String,
}

/// A build.
#[derive(Debug)]
pub(crate) struct Build {
    pub(crate) template: Template,
    pub(crate) tags: Vec<String>,
    pub(crate) id: String,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    status: Status,
    lines: Vec<Line>,
}

/// Every build since the server was started.
#[derive(Debug, Default)]
pub(crate) struct Builds(Mutex<BTreeMap<String, Arc<Build>>>);

impl Builds {
    /// A build that was asked for and not begun.
    pub(crate) fn announce(
        &self,
        id: String,
        template: Template,
        tags: Vec<String>,
    ) -> Arc<Build> {
        let progress = Mutex::new(Progress { status: Status::Waiting, lines: Vec::new() });
        let build = Arc::new(Build { template, tags, id: id.clone(), progress });
        let mut all = locked(&self.0);
        if KEPT <= all.len() {
            all.retain(|_, it| matches!(it.status(), Status::Waiting | Status::Building));
        }
        all.insert(id, Arc::clone(&build));
        build
    }

    pub(crate) fn find(&self, id: &str) -> Option<Arc<Build>> {
        locked(&self.0).get(id).cloned()
    }
}

impl Build {
    pub(crate) fn status(&self) -> Status {
        locked(&self.progress).status.clone()
    }

    /// At most `most` lines from `offset` on.
    pub(crate) fn lines(&self, offset: usize, most: usize) -> Vec<Line> {
        locked(&self.progress).lines.iter().skip(offset).take(most).cloned().collect()
    }

    /// Marks it as begun; says whether it was not before.
    pub(crate) fn begin(&self) -> bool {
        let mut progress = locked(&self.progress);
        let fresh = progress.status == Status::Waiting;
        if fresh {
            progress.status = Status::Building;
        }
        fresh
    }

    fn say(&self, level: &'static str, step: &str, text: &str) {
        let mut progress = locked(&self.progress);
        if progress.lines.len() < LINES {
            let text = text.chars().take(LINE).collect();
            let line = Line { at: SystemTime::now(), level, text, step: step.to_owned() };
            progress.lines.push(line);
        }
    }

    fn end(&self, status: Status) {
        locked(&self.progress).status = status;
    }
}

/// What a step needs to know of those before it.
struct Site<'a> {
    build: &'a Build,
    /// The room in which it is built.
    id: &'a str,
    client: &'a Client,
    env: BTreeMap<String, String>,
    dir: String,
}

/// Why a step was not done.
struct Broken {
    step: String,
    why: String,
}

/// Builds `recipe`, and writes down what came of it.
pub(crate) async fn build(house: Arc<House>, build: Arc<Build>, recipe: Recipe) {
    let status = match make(&house, &build, &recipe).await {
        Ok(()) => Status::Ready,
        Err(Broken { step, why }) => {
            build.say("error", &step, &why);
            Status::Failed { step, why }
        }
    };
    build.end(status);
}

async fn make(house: &House, build: &Build, recipe: &Recipe) -> Result<(), Broken> {
    let base = |why: String| Broken { step: "base".to_owned(), why };
    build.say("info", "base", "making a room to build in");
    let origin = house.origin_of(recipe).map_err(base)?;
    let (keys, usable) = cache::keys_of(recipe, &origin);
    let known = house.cache.find(keys.get(..usable).unwrap_or_default());
    let (workshop, passed) = begin(house, recipe, known).await.map_err(base)?;
    let Workshop { id, client, env, dir } = &workshop;
    let dir = dir.clone().unwrap_or_else(|| HOME.to_owned());
    let mut site = Site { build, id, client, env: env.clone(), dir };
    let done = all(house, &mut site, recipe, (&keys, passed)).await;
    let kept = match done {
        Ok(()) => keep(house, &site, id, recipe).await,
        Err(broken) => Err(broken),
    };
    house.close_workshop(id, client).await;
    kept
}

/// A room to build in: where the last of the steps ended that are `known`, if they are, and how
/// many those are.
async fn begin(
    house: &House,
    recipe: &Recipe,
    known: Option<(usize, Done)>,
) -> Result<(Workshop, usize), String> {
    if let Some((passed, done)) = known {
        match house.workshop(recipe, Some(&done)).await {
            Ok(workshop) => return Ok((workshop, passed)),
            // Somebody removed what it begins with; it is built again.
            Err(why) => tracing::warn!(why, "a step that was kept cannot be used"),
        }
        house.cache.forget(&done.checkpoint).map_err(|error| error.to_string())?;
    }
    Ok((house.workshop(recipe, None).await?, 0))
}

/// Does all steps but those that are `passed`, and keeps what each has come to.
async fn all(
    house: &House,
    site: &mut Site<'_>,
    recipe: &Recipe,
    (keys, passed): (&[String], usize),
) -> Result<(), Broken> {
    for (at, (step, key)) in recipe.steps.iter().zip(keys).enumerate() {
        let number = (at + 1).to_string();
        let shown = step.args.iter().take(2).cloned().collect::<Vec<_>>().join(" ");
        let cached = if at < passed { "CACHED " } else { "" };
        site.build.say("info", &number, &format!("{cached}[{}] {shown}", step.kind));
        if passed <= at {
            let done = site.take(house, &number, step).await;
            done.map_err(|why| Broken { step: number, why })?;
            site.remember(house, step, key).await;
        }
    }
    let Some(start) = &recipe.start_cmd else { return Ok(()) };
    let finalize = |why: String| Broken { step: "finalize".to_owned(), why };
    site.try_start(start, recipe.ready_cmd.as_deref()).await.map_err(finalize)
}

/// Writes the disk of the workshop down as a version of the template.
async fn keep(house: &House, site: &Site<'_>, id: &str, recipe: &Recipe) -> Result<(), Broken> {
    let finalize = |why: String| Broken { step: "finalize".to_owned(), why };
    let checkpoint = house.checkpoint(id).await.map_err(|it| finalize(it.to_string()))?;
    let mut version = Version::new(site.build.id.clone(), checkpoint);
    version.env.clone_from(&site.env);
    version.start.clone_from(&recipe.start_cmd);
    version.dir = Some(site.dir.clone());
    let stale = house.templates.put(&site.build.template, &site.build.tags, &version);
    house.forget_checkpoints(&stale.map_err(|it| finalize(it.to_string()))?);
    site.build.say("info", "finalize", "the template is ready");
    Ok(())
}

impl Site<'_> {
    /// Keeps what a step has come to, if it has changed the disk. Without that, the next build is
    /// slower and nothing else.
    async fn remember(&self, house: &House, step: &Step, key: &str) {
        if !matches!(step.kind.as_str(), "RUN" | "COPY" | "WORKDIR") {
            return;
        }
        let checkpoint = match house.checkpoint(self.id).await {
            Ok(checkpoint) => checkpoint,
            Err(error) => {
                tracing::warn!(%error, "what a step has come to is not kept");
                return;
            }
        };
        let after = (self.env.clone(), self.dir.clone());
        match house.cache.put(Done::new(key.to_owned(), checkpoint.clone(), after)) {
            Ok(stale) => house.forget_checkpoints(&stale),
            Err(error) => {
                tracing::warn!(%error, "what a step has come to is not kept");
                house.forget_checkpoints(&[checkpoint]);
            }
        }
    }

    async fn take(&mut self, house: &House, number: &str, step: &Step) -> Result<(), String> {
        let said = |at: usize| step.args.get(at).map(String::as_str).unwrap_or_default();
        match step.kind.as_str() {
            "RUN" => {
                user(said(1), said(0))?;
                self.run(number, said(0)).await
            }
            "ENV" => {
                for pair in step.args.chunks(2) {
                    if let [name, value] = pair {
                        let value = expanded(value, &self.env);
                        self.env.insert(name.clone(), value);
                    }
                }
                Ok(())
            }
            "WORKDIR" => {
                self.dir = self.path(said(0));
                let line = format!("mkdir -p {}", quoted(&self.dir));
                self.run_in(number, "/", &line).await
            }
            "USER" => user(said(0), "USER"),
            "COPY" => {
                user(said(2), "COPY")?;
                let hash = step.files_hash.as_deref().unwrap_or_default();
                let dest = self.path(said(1)) + if said(1).ends_with('/') { "/" } else { "" };
                let line = copy::line(said(0), &dest, said(3))?;
                copy::put(house, self.client, hash).await?;
                self.run_in(number, "/", &line).await
            }
            other => Err(format!("there is no step `{other}`")),
        }
    }

    /// A path from the directory of this moment.
    fn path(&self, path: &str) -> String {
        let path = expanded(path, &self.env);
        let path = path.strip_suffix('/').unwrap_or(&path);
        if path.starts_with('/') {
            return path.to_owned();
        }
        format!("{}/{path}", self.dir)
    }

    async fn run(&self, number: &str, line: &str) -> Result<(), String> {
        self.run_in(number, &self.dir.clone(), line).await
    }

    /// Runs a line of shell to its end, which must be a success.
    async fn run_in(&self, number: &str, dir: &str, line: &str) -> Result<(), String> {
        let failed = |why: String| format!("failed to run command '{line}': {why}");
        let ending = self.ended(number, dir, line).await;
        let ending = ending.map_err(|it| failed(it.to_string()))?;
        match ending.exit_code() {
            0 => Ok(()),
            _ => Err(failed(ended_by(&ending))),
        }
    }

    async fn ended(&self, number: &str, dir: &str, line: &str) -> Result<Ending, ClientError> {
        let mut attached = self.client.exec(self.exec(dir, line), None).await?;
        let mut rest = Vec::new();
        loop {
            match attached.ear.next().await? {
                Reply::Said(_, bytes) => {
                    rest.extend_from_slice(&bytes);
                    while let Some(at) = rest.iter().position(|it| *it == b'\n') {
                        let whole: Vec<u8> = rest.drain(..=at).collect();
                        let text = String::from_utf8_lossy(&whole);
                        self.build.say("info", number, text.trim_end());
                    }
                    // A line without an end is cut.
                    if LINE < rest.len() {
                        self.build.say("info", number, &String::from_utf8_lossy(&rest));
                        rest.clear();
                    }
                }
                Reply::Ended(ending, _) => {
                    if !rest.is_empty() {
                        self.build.say("info", number, &String::from_utf8_lossy(&rest));
                    }
                    return ending.map_err(ClientError::Confused);
                }
                Reply::Lost(_) | Reply::Running => {}
            }
        }
    }

    fn exec(&self, dir: &str, line: &str) -> Exec {
        Exec {
            argv: ["/bin/bash", "-c", line].map(Into::into).into(),
            dir: dir.parse().ok(),
            env: self.env.iter().map(|(name, it)| (name.into(), it.into())).collect(),
            timeout: Some(Span(STEP)),
            ..Exec::default()
        }
    }

    /// Starts the start command, and waits until it is ready.
    async fn try_start(&self, start: &str, ready: Option<&str>) -> Result<(), String> {
        let failed = |it: ClientError| format!("the start command: {it}");
        self.build.say("info", "finalize", &format!("starting {start}"));
        let exec = Exec { timeout: None, ..self.exec(&self.dir, start) };
        let program = self.client.spawn(exec, None).await.map_err(failed)?;
        let Some(ready) = ready else { return Ok(()) };
        let before = SystemTime::now();
        loop {
            let asked = self.ended("finalize", &self.dir, ready).await.map_err(failed)?;
            if asked == (Ending::Exited { code: 0 }) {
                break;
            }
            if before.elapsed().is_ok_and(|it| READY < it) {
                return Err(format!("the start command is not ready: {ready}"));
            }
            tokio::time::sleep(ASK).await;
        }
        // Every room starts its own.
        let end = rustix::process::Signal::KILL;
        self.client.signal(program, end).await.map_err(failed)
    }
}

/// What ended a program, in the word that reports have for it.
fn ended_by(ending: &Ending) -> String {
    if let Ending::Exited { code } = ending {
        return format!("exit status {code}");
    }
    let value = serde_json::to_value(ending).unwrap_or_default();
    let kind = value.get("kind").and_then(serde_json::Value::as_str);
    kind.unwrap_or("ended").replace('_', " ")
}

/// A room has one user.
fn user(name: &str, line: &str) -> Result<(), String> {
    if matches!(name, "" | "user") {
        return Ok(());
    }
    Err(format!(
        "failed to run command '{line}': command failed: unauthenticated: invalid username: \
         '{name}' (rooms of this server have one user, 'user')"
    ))
}

/// `text` with the values of variables; nothing else is expanded.
fn expanded(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut all = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        all.push_str(before);
        let braced = after.strip_prefix('{').and_then(|it| it.split_once('}'));
        let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let plain = after.find(|it| !is_name(it)).unwrap_or(after.len());
        let (name, next) = braced.or(after.split_at_checked(plain)).unwrap_or(("", after));
        if name.is_empty() || !name.chars().all(is_name) {
            all.push('$');
            rest = after;
        } else {
            all.push_str(env.get(name).map(String::as_str).unwrap_or_default());
            rest = next;
        }
    }
    all + rest
}

/// `text` as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded_and_nothing_else() {
        let env = [("A", "one"), ("B_2", "two")];
        let env = env.map(|(name, it)| (name.to_owned(), it.to_owned())).into();
        let cases = [
            ("$A/${B_2}x", "one/twox"),
            ("$NONE.", "."),
            ("$(id) `id` $", "$(id) `id` $"),
            ("a$$A", "a$one"),
        ];
        for (text, expected) in cases {
            assert_eq!(expanded(text, &env), expected, "{text}");
        }
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
