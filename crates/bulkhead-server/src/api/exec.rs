//! One call: a program from its start to its end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{Json as Answer, extract::State};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bulkhead_engine::{
    room::Which,
    rooms::{Attached, Client, Hand, Reply},
};
use bulkhead_spec::{Ending, Exec, Span, Stdin};
use http::Method;
use rustix::process::Signal;

use super::{
    ask::{Json, Path, directory, seconds},
    idempotency::Reserved,
    operation::{Operation, call},
    problem::{Kind, Problem},
    programs::{variables, words},
    room::living,
    view,
    words::{Encoding, ExecAsked, ExecOutcome},
};
use crate::house::House;

/// How long a program may run if nobody says.
const TIMEOUT: f64 = 300.0;
/// How much of a stream is kept if nobody says, and at most.
const KEPT: u64 = 1 << 20;
const MOST_KEPT: u64 = 16 << 20;

/// `POST …/exec`
pub(super) fn operation() -> Operation {
    call(
        &Method::POST,
        "/v1/sandboxes/{id}/exec",
        ("exec", "Run a program to its end; the answer has what it said and how it ended"),
        exec,
    )
    .takes::<ExecAsked>()
    .gives::<ExecOutcome>(200)
    .once()
}

async fn exec(
    State(house): State<Arc<House>>,
    Path(id): Path<String>,
    _reserved: Reserved,
    Json(asked): Json<ExecAsked>,
) -> Result<Answer<ExecOutcome>, Problem> {
    let (_, client) = living(&house, &id)?;
    let started = Instant::now();
    let outcome = run(&client, asked).await?;
    house.meters.ran(started.elapsed());
    Ok(Answer(outcome))
}

/// Runs it.
async fn run(client: &Client, asked: ExecAsked) -> Result<ExecOutcome, Problem> {
    let keep = asked.keep_bytes.unwrap_or(KEPT);
    if MOST_KEPT < keep {
        return Err(Problem::malformed(format!("`keep_bytes` is at most {MOST_KEPT}")));
    }
    let keep = usize::try_from(keep).unwrap_or(usize::MAX);
    let encoding = asked.encoding.unwrap_or_default();
    let input = asked.stdin.map(String::into_bytes);
    let exec = Exec {
        argv: words(asked.argv, asked.command)?,
        dir: asked.cwd.as_deref().map(directory).transpose()?,
        env: variables(asked.env)?,
        timeout: Some(Span(seconds(
            "timeout_seconds",
            asked.timeout_seconds.unwrap_or(TIMEOUT),
        )?)),
        stdin: if input.is_some() { Stdin::Piped } else { Stdin::Empty },
        ..Exec::default()
    };
    let Attached { ear, hand, .. } = client.exec(exec, None).await?;
    let program = ear.program;
    // Who goes away before the end wanted only the end.
    let mut left = Left { client: client.clone(), program: Some(program) };
    let mut heard = Heard { stdout: Kept::new(keep), stderr: Kept::new(keep) };
    let mut ear = ear;
    let listen = async {
        loop {
            match ear.next().await? {
                Reply::Said(Which::Stdout, bytes) => heard.stdout.take(&bytes),
                Reply::Said(Which::Stderr, bytes) => heard.stderr.take(&bytes),
                Reply::Lost(_) | Reply::Running => {}
                Reply::Ended(ending, wall) => return Ok::<_, Problem>((ending, wall)),
            }
        }
    };
    let (ended, ()) = tokio::join!(listen, feed(hand, input));
    left.program = None;
    let (ending, wall) = ended?;
    let ending = ending.map_err(|trouble| Problem::new(Kind::SandboxEnded, trouble))?;
    Ok(heard.outcome(program, &ending, wall, encoding))
}

/// Gives the program what it reads; one that reads nothing does not mind.
async fn feed(mut hand: Hand, input: Option<Vec<u8>>) {
    let Some(input) = input else { return drop(hand) };
    if hand.write(&input).await.is_ok() {
        hand.close_input().await.unwrap_or_default();
    }
}

/// Kills the program if nobody waits for its end any more.
struct Left {
    client: Client,
    program: Option<u32>,
}

impl Drop for Left {
    fn drop(&mut self) {
        let Some(program) = self.program else { return };
        let client = self.client.clone();
        tokio::spawn(async move {
            client.signal(program, Signal::KILL).await.unwrap_or_default();
        });
    }
}

struct Heard {
    stdout: Kept,
    stderr: Kept,
}

impl Heard {
    fn outcome(
        self,
        program: u32,
        ending: &Ending,
        wall: Duration,
        encoding: Encoding,
    ) -> ExecOutcome {
        let truncated = self.stdout.is_cut() || self.stderr.is_cut();
        let ending = view::ending(ending);
        ExecOutcome {
            program,
            exit_code: ending.exit_code,
            ending,
            output_bytes: self.stdout.all + self.stderr.all,
            truncated,
            stdout: self.stdout.written(encoding),
            stderr: self.stderr.written(encoding),
            duration_seconds: wall.as_secs_f64(),
        }
    }
}

/// The beginning and the end of a stream.
#[derive(Debug)]
struct Kept {
    head: Vec<u8>,
    tail: std::collections::VecDeque<u8>,
    half: usize,
    all: u64,
}

impl Kept {
    fn new(most: usize) -> Self {
        Self {
            head: Vec::new(),
            tail: std::collections::VecDeque::new(),
            half: most / 2,
            all: 0,
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.all += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let room = self.half.saturating_sub(self.head.len()).min(bytes.len());
        let (head, tail) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        self.head.extend_from_slice(head);
        self.tail.extend(tail);
        let over = self.tail.len().saturating_sub(self.half);
        self.tail.drain(..over);
    }

    fn is_cut(&self) -> bool {
        let kept = self.head.len() + self.tail.len();
        u64::try_from(kept).unwrap_or(u64::MAX) < self.all
    }

    fn written(self, encoding: Encoding) -> String {
        let mut bytes = self.head;
        bytes.extend(self.tail);
        match encoding {
            Encoding::Text => String::from_utf8_lossy(&bytes).into_owned(),
            Encoding::Base64 => STANDARD.encode(&bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_stream_its_beginning_and_its_end_are_kept() {
        let mut kept = Kept::new(8);
        kept.take(b"ab");
        kept.take(b"cdefghij");
        assert!(kept.is_cut());
        assert_eq!(kept.all, 10);
        assert_eq!(kept.written(Encoding::Text), "abcdghij");
        let mut whole = Kept::new(8);
        whole.take(b"abcdefgh");
        assert!(!whole.is_cut());
        assert_eq!(whole.written(Encoding::Base64), "YWJjZGVmZ2g=");
    }
}
