//! Programs of a room.

use std::{collections::BTreeMap, ffi::OsString};

use axum::response::{IntoResponse as _, Response};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bulkhead_engine::{
    room::{From, Which},
    rooms::{Attached, ClientError, Ear, ProgramInfo, Reply},
};
use bulkhead_spec::{Ending, Exec, GuestPath, Span, Stdin, Terminal};
use rustix::process::Signal;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Call,
    connect::{
        Code, Gone, RpcError, Stream, deadline, envelopes, failed, first, message, ping, reply,
    },
    entry::absolute,
};
use crate::e2b::interpreter::TAG;

/// The most bytes in one event.
const CHUNK: usize = 32 << 10;

/// Answers a call of the process service.
pub(super) async fn answer(call: Call, name: &str) -> Response {
    match name {
        "Start" => match start(&call).await {
            Ok(response) => response,
            Err(error) => failed(&error),
        },
        "Connect" => match connect(&call).await {
            Ok(response) => response,
            Err(error) => failed(&error),
        },
        "StreamInput" => match stream_input(&call).await {
            Ok(()) => {
                let (stream, response) = Stream::open();
                if stream.send(&json!({})).await.is_ok() {
                    stream.end(None).await;
                }
                response
            }
            Err(error) => failed(&error),
        },
        _ => match unary(&call, name).await {
            Ok(body) => reply(&body),
            Err(error) => error.into_response(),
        },
    }
}

async fn unary(call: &Call, name: &str) -> Result<Value, RpcError> {
    match name {
        "List" => list(call).await,
        "SendSignal" => send_signal(call).await,
        "SendInput" => send_input(call).await,
        "CloseStdin" => close_stdin(call).await,
        "Update" => update(call).await,
        _ => Err(RpcError::new(Code::Unimplemented, format!("process.Process has no {name}"))),
    }
}

#[derive(Deserialize)]
struct Start {
    process: Config,
    pty: Option<Pty>,
    tag: Option<String>,
    stdin: Option<bool>,
}

#[derive(Deserialize)]
struct Config {
    cmd: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    envs: BTreeMap<String, String>,
    cwd: Option<String>,
}

#[derive(Deserialize)]
struct Pty {
    size: Size,
}

#[derive(Clone, Copy, Deserialize)]
struct Size {
    cols: u16,
    rows: u16,
}

async fn start(call: &Call) -> Result<Response, RpcError> {
    let start: Start = first(&call.body)?;
    let terminal = start.pty.map(|it| Terminal { rows: it.size.rows, columns: it.size.cols });
    let words = std::iter::once(start.process.cmd).chain(start.process.args);
    let cwd = start.process.cwd.filter(|it| !it.is_empty());
    let exec = Exec {
        argv: words.map(OsString::from).collect(),
        dir: cwd.as_deref().map(directory).transpose()?,
        env: start.process.envs.into_iter().map(|(a, b)| (a.into(), b.into())).collect(),
        timeout: deadline(&call.headers).map(Span),
        stdin: if start.stdin == Some(false) { Stdin::Empty } else { Stdin::Piped },
        terminal,
        ..Exec::default()
    };
    let attached = call.tenant.client.exec(exec, start.tag).await;
    let attached = attached.map_err(|error| not_started(&error, cwd.as_deref()))?;
    Ok(follow(call, attached, terminal.is_some()))
}

fn directory(cwd: &str) -> Result<GuestPath, RpcError> {
    absolute(cwd)
        .parse()
        .map_err(|_| RpcError::new(Code::InvalidArgument, format!("cwd '{cwd}' is not a path")))
}

fn not_started(error: &ClientError, cwd: Option<&str>) -> RpcError {
    match error {
        ClientError::Gone(_) => RpcError::new(Code::Unavailable, "the sandbox is gone"),
        ClientError::Confused(_) => RpcError::new(Code::Internal, error.to_string()),
        ClientError::Failed(failed) => {
            let code = match failed.kind.as_str() {
                "no_dir" => {
                    let message = format!("cwd '{}' does not exist", cwd.unwrap_or_default());
                    return RpcError::new(Code::InvalidArgument, message);
                }
                "not_found" => Code::NotFound,
                "denied" | "not_executable" => Code::InvalidArgument,
                _ => Code::Internal,
            };
            let causes = std::iter::once(&failed.message).chain(&failed.causes);
            let text: Vec<&str> = causes.map(String::as_str).collect();
            RpcError::new(code, text.join(": "))
        }
    }
}

async fn connect(call: &Call) -> Result<Response, RpcError> {
    #[derive(Deserialize)]
    struct Connect {
        process: Selector,
    }
    let Connect { process } = first(&call.body)?;
    let program = find(call, &process).await?;
    let attached = call.tenant.client.attach(program.id, From::Now).await;
    let attached = attached.map_err(|error| broken(&error))?;
    let attached = Attached { pid: Some(program.pid), ..attached };
    Ok(follow(call, attached, program.terminal))
}

/// Passes on what a program says, for as long as the client listens. The program does not mind.
#[expect(clippy::fn_params_excessive_bools, reason = "whether it has a terminal")]
fn follow(call: &Call, attached: Attached, terminal: bool) -> Response {
    let (stream, response) = Stream::open();
    let binding = call.wire.as_ref().map(|it| call.tenant.bind(it.clone()));
    let every = ping(&call.headers);
    tokio::spawn(async move {
        let Attached { mut ear, hand, pid } = attached;
        let pid = pid.unwrap_or_default();
        let told = tell(&stream, &mut ear, pid, terminal, every).await;
        drop(hand);
        drop(binding);
        if let Ok(error) = told {
            stream.end(error).await;
        }
    });
    response
}

#[expect(clippy::fn_params_excessive_bools, reason = "whether it has a terminal")]
async fn tell(
    stream: &Stream,
    ear: &mut Ear,
    pid: u32,
    terminal: bool,
    every: std::time::Duration,
) -> Result<Option<RpcError>, Gone> {
    stream.send(&event("start", &json!({ "pid": pid }))).await?;
    let mut tick = tokio::time::interval(every);
    tick.tick().await;
    loop {
        // Cancelling a read in the middle of a frame would lose it, so it is kept.
        let mut next = Box::pin(ear.next());
        let reply = loop {
            tokio::select! {
                reply = &mut next => break reply,
                _ = tick.tick() => stream.send(&event("keepalive", &json!({}))).await?,
                () = stream.left() => return Err(Gone),
            }
        };
        drop(next);
        match reply {
            Ok(Reply::Said(which, bytes)) => {
                for chunk in bytes.chunks(CHUNK) {
                    let name = match (terminal, which) {
                        (true, _) => "pty",
                        (false, Which::Stdout) => "stdout",
                        (false, Which::Stderr) => "stderr",
                    };
                    let data = json!({ (name): STANDARD.encode(chunk) });
                    stream.send(&event("data", &data)).await?;
                }
            }
            Ok(Reply::Lost(_)) => {}
            Ok(Reply::Running) => return Ok(None),
            Ok(Reply::Ended(Ok(ending), _)) => return ended(stream, &ending).await,
            Ok(Reply::Ended(Err(trouble), _)) => {
                return Ok(Some(RpcError::new(Code::Unavailable, trouble)));
            }
            Err(error) => return Ok(Some(broken(&error))),
        }
    }
}

/// Says how a program ended, in an event or as the error of the stream.
async fn ended(stream: &Stream, ending: &Ending) -> Result<Option<RpcError>, Gone> {
    let (code, exited, status) = match *ending {
        Ending::Exited { code } => (code, true, format!("exit status {code}")),
        Ending::Signaled { signal } | Ending::Canceled { signal } => {
            (-1, false, format!("signal: {}", named(signal)))
        }
        Ending::OutOfMemory { .. } => (-1, false, "signal: killed (out of memory)".to_owned()),
        Ending::DiskFull { .. } => (1, true, "exit status 1 (disk full)".to_owned()),
        Ending::TimedOut { .. } => {
            let message = "the operation timed out";
            return Ok(Some(RpcError::new(Code::DeadlineExceeded, message)));
        }
        Ending::CpuTimeExceeded { .. } => (-1, false, "signal: killed (CPU time)".to_owned()),
        Ending::OutputLimit { .. } => (-1, false, "signal: killed (output limit)".to_owned()),
        Ending::Lost => {
            return Ok(Some(RpcError::new(Code::Unavailable, "the sandbox is gone")));
        }
    };
    let mut end = json!({ "exitCode": code, "exited": exited, "status": status });
    if let (Some(end), true) = (end.as_object_mut(), code != 0) {
        end.insert("error".to_owned(), status.into());
    }
    stream.send(&event("end", &end)).await?;
    Ok(None)
}

fn named(signal: i32) -> String {
    match signal {
        1 => "hangup".to_owned(),
        2 => "interrupt".to_owned(),
        3 => "quit".to_owned(),
        6 => "aborted".to_owned(),
        9 => "killed".to_owned(),
        11 => "segmentation fault".to_owned(),
        13 => "broken pipe".to_owned(),
        15 => "terminated".to_owned(),
        other => format!("signal {other}"),
    }
}

fn event(name: &str, body: &Value) -> Value {
    json!({ "event": { (name): body } })
}

/// Which program is meant.
#[derive(Deserialize)]
struct Selector {
    pid: Option<u32>,
    tag: Option<String>,
}

async fn find(call: &Call, wanted: &Selector) -> Result<ProgramInfo, RpcError> {
    let programs = call.tenant.client.programs().await.map_err(|error| broken(&error))?;
    let found =
        programs.into_iter().rev().filter(shown).find(|it| match (&wanted.pid, &wanted.tag) {
            (Some(pid), _) => it.pid == *pid,
            (None, Some(tag)) => it.tag.as_ref() == Some(tag),
            (None, None) => false,
        });
    found.ok_or_else(|| {
        let message = match (&wanted.pid, &wanted.tag) {
            (Some(pid), _) => format!("process with pid {pid} not found"),
            (None, tag) => {
                format!("process with tag {} not found", tag.as_deref().unwrap_or_default())
            }
        };
        RpcError::new(Code::NotFound, message)
    })
}

/// The interpreter is part of the room, and no program that somebody started.
fn shown(program: &ProgramInfo) -> bool {
    program.tag.as_deref() != Some(TAG)
}

/// One that still runs.
async fn running(call: &Call, wanted: &Selector) -> Result<ProgramInfo, RpcError> {
    let program = find(call, wanted).await?;
    if program.running {
        return Ok(program);
    }
    Err(RpcError::new(Code::NotFound, format!("process {} has ended", program.pid)))
}

async fn list(call: &Call) -> Result<Value, RpcError> {
    let programs = call.tenant.client.programs().await.map_err(|error| broken(&error))?;
    let shown: Vec<Value> = programs
        .iter()
        .filter(|it| it.running && shown(it))
        .map(|it| {
            let mut words = it.argv.iter().map(|it| it.0.to_string_lossy().into_owned());
            let cmd = words.next().unwrap_or_default();
            let args: Vec<String> = words.collect();
            let config = json!({ "cmd": cmd, "args": args, "envs": {}, "cwd": it.dir });
            json!({ "config": config, "pid": it.pid, "tag": it.tag })
        })
        .collect();
    Ok(json!({ "processes": shown }))
}

async fn send_signal(call: &Call) -> Result<Value, RpcError> {
    #[derive(Deserialize)]
    struct SendSignal {
        process: Selector,
        signal: Value,
    }
    let SendSignal { process, signal } = message(&call.body)?;
    let signal = match signal.as_str() {
        Some("SIGNAL_SIGTERM") => Signal::TERM,
        Some("SIGNAL_SIGKILL") => Signal::KILL,
        Some(_) | None => {
            return Err(RpcError::new(Code::Unimplemented, "this signal cannot be sent"));
        }
    };
    let program = running(call, &process).await?;
    let sent = call.tenant.client.signal(program.id, signal).await;
    sent.map_err(|error| broken(&error))?;
    Ok(json!({}))
}

#[derive(Deserialize)]
struct Input {
    stdin: Option<String>,
    pty: Option<String>,
}

impl Input {
    fn bytes(&self) -> Result<Vec<u8>, RpcError> {
        let text = self.stdin.as_ref().or(self.pty.as_ref()).map(String::as_str);
        STANDARD
            .decode(text.unwrap_or_default())
            .map_err(|error| RpcError::new(Code::InvalidArgument, error.to_string()))
    }
}

async fn send_input(call: &Call) -> Result<Value, RpcError> {
    #[derive(Deserialize)]
    struct SendInput {
        process: Selector,
        input: Input,
    }
    let SendInput { process, input } = message(&call.body)?;
    let program = running(call, &process).await?;
    let sent = call.tenant.client.input(program.id, &input.bytes()?).await;
    sent.map_err(|error| broken(&error))?;
    Ok(json!({}))
}

async fn stream_input(call: &Call) -> Result<(), RpcError> {
    #[derive(Deserialize)]
    struct Begin {
        process: Selector,
    }
    #[derive(Deserialize)]
    struct Data {
        input: Input,
    }
    #[derive(Deserialize)]
    struct Part {
        start: Option<Begin>,
        data: Option<Data>,
    }
    let mut program = None;
    for envelope in envelopes(&call.body)? {
        let part: Part = message(envelope)?;
        if let Some(Begin { process }) = part.start {
            program = Some(running(call, &process).await?.id);
        }
        if let Some(Data { input }) = part.data {
            let program = program
                .ok_or_else(|| RpcError::new(Code::InvalidArgument, "no process was named"))?;
            let sent = call.tenant.client.input(program, &input.bytes()?).await;
            sent.map_err(|error| broken(&error))?;
        }
    }
    Ok(())
}

async fn close_stdin(call: &Call) -> Result<Value, RpcError> {
    #[derive(Deserialize)]
    struct CloseStdin {
        process: Selector,
    }
    let CloseStdin { process } = message(&call.body)?;
    let program = running(call, &process).await?;
    if program.terminal {
        let message = "stdin of a terminal cannot be closed";
        return Err(RpcError::new(Code::InvalidArgument, message));
    }
    let closed = call.tenant.client.close_input(program.id).await;
    closed.map_err(|error| broken(&error))?;
    Ok(json!({}))
}

async fn update(call: &Call) -> Result<Value, RpcError> {
    #[derive(Deserialize)]
    struct Update {
        process: Selector,
        pty: Option<Pty>,
    }
    let Update { process, pty } = message(&call.body)?;
    let program = running(call, &process).await?;
    if let Some(Pty { size }) = pty {
        let terminal = Terminal { rows: size.rows, columns: size.cols };
        let told = call.tenant.client.resize(program.id, terminal).await;
        told.map_err(|error| broken(&error))?;
    }
    Ok(json!({}))
}

fn broken(error: &ClientError) -> RpcError {
    match error {
        ClientError::Gone(_) => RpcError::new(Code::Unavailable, "the sandbox is gone"),
        ClientError::Failed(failed) => RpcError::new(Code::NotFound, failed.message.clone()),
        ClientError::Confused(_) => RpcError::new(Code::Internal, error.to_string()),
    }
}
