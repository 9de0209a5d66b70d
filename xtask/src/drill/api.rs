//! A server as programs of any language meet it: plain HTTP by its socket.

use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::drill::site::{Site, must, stop, until};
use crate::trouble::{OrTrouble, Trouble};

/// How long a server may take until it answers.
const TO_START: Duration = Duration::from_secs(20);
/// How long any answer may take.
const TO_ANSWER: Duration = Duration::from_mins(1);

/// A server of a drill. `Drop` kills it, if the drill has not stopped it.
pub(super) struct Api<'a> {
    site: &'a Site,
    home: PathBuf,
    child: RefCell<Option<Child>>,
}

/// What a server answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl Answer {
    /// The problem that it is, or what is wrong with it: it must have a code.
    pub(super) fn problem(&self) -> Result<String, Trouble> {
        let text = |name: &str| self.body.get(name).and_then(Value::as_str).unwrap_or_default();
        must(400 <= self.status && text("code").starts_with("BH-E"), || {
            format!("a refusal was due, and the answer is {self:?}")
        })?;
        Ok(format!("{} {}", self.status, text("detail")))
    }
}

impl<'a> Api<'a> {
    /// A server of `site`, not started.
    pub(super) fn of(site: &'a Site) -> Self {
        Self { site, home: site.bulkhead_home(), child: RefCell::new(None) }
    }

    /// One that keeps its state elsewhere.
    pub(super) fn at(site: &'a Site, home: &Path) -> Self {
        Self { site, home: home.to_owned(), child: RefCell::new(None) }
    }

    /// Starts it with these variables, and waits until it answers.
    pub(super) fn start(&self, env: &[(&str, &str)]) -> Result<(), Trouble> {
        let mut command = self.site.command(&["serve", "--quiet"]);
        command.env("BULKHEAD_HOME", &self.home).envs(env.iter().copied());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().or_trouble(|| "could not start the server".to_owned())?;
        *self.child.borrow_mut() = Some(child);
        let answers = || Ok(self.get("/healthz").is_ok() || self.is_gone());
        until("the server answers", TO_START, answers).map(drop)
    }

    /// Whether it has ended by itself.
    pub(super) fn is_gone(&self) -> bool {
        let mut child = self.child.borrow_mut();
        child.as_mut().is_none_or(|it| it.try_wait().is_ok_and(|it| it.is_some()))
    }

    /// Kills it where it stands.
    pub(super) fn kill(&self) {
        if let Some(mut child) = self.child.borrow_mut().take() {
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// Stops it as a service manager would.
    pub(super) fn stop(&self) -> Result<(), Trouble> {
        let child = self.child.borrow_mut().take();
        let Some(mut child) = child else { return Ok(()) };
        stop(&mut child, &self.socket())
    }

    /// How many descriptors it has open.
    pub(super) fn descriptors(&self) -> usize {
        let pid = self.child.borrow().as_ref().map_or(0, Child::id);
        std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().count()
    }

    fn socket(&self) -> PathBuf {
        self.home.join("run/bulkhead.sock")
    }

    /// A connection on which `request` was said, and nothing else yet.
    pub(super) fn say(&self, request: &[u8]) -> Result<UnixStream, Trouble> {
        let failed = || "could not talk to the server".to_owned();
        let mut stream = UnixStream::connect(self.socket()).or_trouble(failed)?;
        stream.set_read_timeout(Some(TO_ANSWER)).or_trouble(failed)?;
        stream.write_all(request).or_trouble(failed)?;
        Ok(stream)
    }

    /// A call as it goes over the wire.
    pub(super) fn request(method: &str, path: &str, body: Option<&Value>) -> Vec<u8> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    /// Makes a call; an answer that is cut off is a trouble.
    pub(super) fn call(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, Trouble> {
        let mut stream = self.say(&Self::request(method, path, body))?;
        let mut all = Vec::new();
        let read = stream.read_to_end(&mut all);
        read.or_trouble(|| format!("`{method} {path}` was cut off"))?;
        answer(&all).ok_or_else(|| Trouble::new(format!("`{method} {path}` has no answer")))
    }

    pub(super) fn get(&self, path: &str) -> Result<Answer, Trouble> {
        self.call("GET", path, None)
    }

    /// Makes a call that must be done.
    pub(super) fn done(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Trouble> {
        let answer = self.call(method, path, body)?;
        must((200..300).contains(&answer.status), || {
            format!("`{method} {path}` was answered {answer:?}")
        })?;
        Ok(answer.body)
    }

    /// Makes a sandbox; its path.
    pub(super) fn create(&self) -> Result<String, Trouble> {
        let made = self.done("POST", "/v1/sandboxes", Some(&json!({})))?;
        let id = made.get("id").and_then(Value::as_str);
        let id = id.ok_or_else(|| Trouble::new("a sandbox has no id"))?;
        Ok(format!("/v1/sandboxes/{id}"))
    }

    /// Every sandbox that the server lists must be what it is said to be: one that runs runs a
    /// program, one that is frozen goes on. How many live.
    pub(super) fn all_are_well(&self) -> Result<usize, Trouble> {
        let page = self.done("GET", "/v1/sandboxes?limit=100", None)?;
        let listed = page.get("sandboxes").and_then(Value::as_array).cloned();
        let mut living = 0;
        for sandbox in listed.unwrap_or_default() {
            let text = |name: &str| sandbox.get(name).and_then(Value::as_str).unwrap_or("");
            let path = format!("/v1/sandboxes/{}", text("id"));
            match text("state") {
                "paused" => drop(self.done("POST", &format!("{path}/resume"), None)?),
                "running" => {}
                _ => continue,
            }
            living += 1;
            let line = json!({ "argv": ["/bin/true"] });
            let ran = self.done("POST", &format!("{path}/exec"), Some(&line))?;
            let code = ran.get("exit_code").and_then(Value::as_i64);
            must(code == Some(0), || format!("in `{path}`, a program came to {ran}"))?;
        }
        Ok(living)
    }

    /// Removes every sandbox and every checkpoint, by the server's own calls.
    pub(super) fn remove_all(&self) -> Result<(), Trouble> {
        for (all, list, name) in
            [("sandboxes", "sandboxes", "id"), ("checkpoints", "checkpoints", "name")]
        {
            let page = self.done("GET", &format!("/v1/{all}?limit=100"), None)?;
            let items = page.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
            for item in items {
                let name = item.get(name).and_then(Value::as_str).unwrap_or_default();
                self.done("DELETE", &format!("/v1/{all}/{name}"), None)?;
            }
        }
        Ok(())
    }
}

impl Drop for Api<'_> {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What was heard, if it is a whole answer.
fn answer(all: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(all);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    });
    if length.is_some_and(|it| body.len() < it) {
        return None;
    }
    // An answer without a body says nothing more.
    let body = serde_json::from_str(body).unwrap_or(Value::Null);
    Some(Answer { status, body })
}
