//! Programs of a sandbox.

use std::{ffi::OsString, sync::Arc, time::Duration};

use axum::{
    Json as Answer,
    body::Body,
    extract::State,
    response::{IntoResponse as _, Response},
};
use bulkhead_engine::{
    room::From,
    rooms::{Client, ProgramInfo, Reply},
};
use bulkhead_spec::{Exec, Span, Stdin, Terminal};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt as _;
use rustix::process::Signal;

use super::{
    ask::{Json, Path, Query, directory, seconds},
    idempotency::Reserved,
    operation::{Operation, call},
    output,
    problem::{Kind, Problem},
    room::living,
    sandboxes::Wait,
    view,
    words::{NewProgram, ProgramList, ProgramView, SignalAsked, TerminalSize},
};
use crate::house::House;

type Shared = State<Arc<House>>;
type OneOf = Path<(String, u32)>;

/// The calls.
pub(super) fn operations() -> Vec<Operation> {
    let (get, post) = (&Method::GET, &Method::POST);
    let (all, one) = ("/v1/sandboxes/{id}/programs", "/v1/sandboxes/{id}/programs/{program}");
    let stdin = "/v1/sandboxes/{id}/programs/{program}/stdin";
    vec![
        call(post, all, ("startProgram", "Start a program and leave it to itself"), start)
            .takes::<NewProgram>()
            .gives::<ProgramView>(201)
            .once(),
        call(get, all, ("listPrograms", "List the programs"), list).gives::<ProgramList>(200),
        call(get, one, ("getProgram", "Look at a program"), show).gives::<ProgramView>(200),
        call(
            get,
            "/v1/sandboxes/{id}/programs/{program}/wait",
            ("waitForProgram", "Wait until it has ended, or the time is over"),
            wait,
        )
        .query::<Wait>()
        .gives::<ProgramView>(200),
        call(
            post,
            "/v1/sandboxes/{id}/programs/{program}/signal",
            ("signalProgram", "Send a signal to it and its process group"),
            signal,
        )
        .takes::<SignalAsked>()
        .gives_nothing(),
        call(post, stdin, ("writeStdin", "Write to what it reads"), write_stdin)
            .takes_bytes("application/octet-stream")
            .gives_nothing(),
        call(&Method::DELETE, stdin, ("closeStdin", "End what it reads"), close_stdin)
            .gives_nothing(),
        call(
            post,
            "/v1/sandboxes/{id}/programs/{program}/resize",
            ("resizeTerminal", "Tell its terminal a new size"),
            resize,
        )
        .takes::<TerminalSize>()
        .gives_nothing(),
        output::operation(),
    ]
}

/// What is asked for, as the engine takes it.
pub(super) fn words(
    argv: Vec<String>,
    command: Option<String>,
) -> Result<Vec<OsString>, Problem> {
    let words = match (argv.is_empty(), command) {
        (false, None) => argv,
        (true, Some(line)) => vec!["/bin/sh".to_owned(), "-c".to_owned(), line],
        (true, None) | (false, Some(_)) => {
            return Err(Problem::malformed("either `argv` or `command` is to be said"));
        }
    };
    if words.iter().any(|it| it.contains('\0')) || words.first().is_some_and(String::is_empty) {
        return Err(Problem::malformed("an argument has a NUL, or the program has no name"));
    }
    Ok(words.into_iter().map(OsString::from).collect())
}

/// Variables, checked.
pub(super) fn variables(
    env: std::collections::BTreeMap<String, String>,
) -> Result<std::collections::BTreeMap<OsString, OsString>, Problem> {
    let odd = |(name, value): (&String, &String)| {
        name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
    };
    if env.iter().any(odd) {
        return Err(Problem::malformed("`env`: a name has no `=`, and nothing has a NUL"));
    }
    Ok(env.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
}

fn understood(asked: NewProgram) -> Result<Exec, Problem> {
    Ok(Exec {
        argv: words(asked.argv, asked.command)?,
        dir: asked.cwd.as_deref().map(directory).transpose()?,
        env: variables(asked.env)?,
        timeout: asked
            .timeout_seconds
            .map(|it| seconds("timeout_seconds", it).map(Span))
            .transpose()?,
        stdin: if asked.stdin == Some(true) || asked.terminal.is_some() {
            Stdin::Piped
        } else {
            Stdin::Empty
        },
        terminal: asked.terminal.map(size).transpose()?,
        ..Exec::default()
    })
}

fn size(asked: TerminalSize) -> Result<Terminal, Problem> {
    if asked.rows == 0 || asked.columns == 0 {
        return Err(Problem::malformed("a terminal has at least one row and one column"));
    }
    Ok(Terminal { rows: asked.rows, columns: asked.columns })
}

async fn start(
    State(house): Shared,
    Path(id): Path<String>,
    _reserved: Reserved,
    Json(asked): Json<NewProgram>,
) -> Result<Response, Problem> {
    let (_, client) = living(&house, &id)?;
    let tag = asked.tag.clone();
    if tag.as_ref().is_some_and(|it| it.is_empty() || 128 < it.len()) {
        return Err(Problem::malformed("a tag has 1 to 128 bytes"));
    }
    let program = client.spawn(understood(asked)?, tag).await?;
    let info = program_of(&client, program).await?;
    Ok((StatusCode::CREATED, Answer(view::program(&info))).into_response())
}

async fn list(
    State(house): Shared,
    Path(id): Path<String>,
) -> Result<Answer<ProgramList>, Problem> {
    let (_, client) = living(&house, &id)?;
    let programs = client.programs().await?;
    Ok(Answer(ProgramList { programs: programs.iter().map(view::program).collect() }))
}

async fn show(
    State(house): Shared,
    Path((id, program)): OneOf,
) -> Result<Answer<ProgramView>, Problem> {
    let (_, client) = living(&house, &id)?;
    Ok(Answer(view::program(&program_of(&client, program).await?)))
}

/// The program that the room calls `program`.
pub(super) async fn program_of(client: &Client, program: u32) -> Result<ProgramInfo, Problem> {
    let programs = client.programs().await?;
    programs.into_iter().find(|it| it.id == program).ok_or_else(|| {
        Problem::new(Kind::ProgramNotFound, format!("the sandbox has no program {program}"))
    })
}

async fn wait(
    State(house): Shared,
    Path((id, program)): OneOf,
    Query(wait): Query<Wait>,
) -> Result<Answer<ProgramView>, Problem> {
    let length = wait.length()?;
    let (_, client) = living(&house, &id)?;
    program_of(&client, program).await?;
    let mut attached = client.overhear(program, From::Now).await?;
    let ended = async {
        loop {
            match attached.ear.next().await {
                Ok(Reply::Ended(..)) | Err(_) => return,
                Ok(Reply::Said(..) | Reply::Lost(_) | Reply::Running) => {}
            }
        }
    };
    tokio::time::timeout(length, ended).await.unwrap_or_default();
    Ok(Answer(view::program(&program_of(&client, program).await?)))
}

async fn signal(
    State(house): Shared,
    Path((id, program)): OneOf,
    Json(asked): Json<SignalAsked>,
) -> Result<StatusCode, Problem> {
    let signal = named(&asked.signal)
        .ok_or_else(|| Problem::malformed(format!("`{}` is no signal", asked.signal)))?;
    let (_, client) = living(&house, &id)?;
    program_of(&client, program).await?;
    client.signal(program, signal).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A signal by its name or its number.
pub(super) fn named(text: &str) -> Option<Signal> {
    let known = [
        ("HUP", Signal::HUP),
        ("INT", Signal::INT),
        ("QUIT", Signal::QUIT),
        ("KILL", Signal::KILL),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
        ("TERM", Signal::TERM),
        ("CONT", Signal::CONT),
        ("STOP", Signal::STOP),
        ("TSTP", Signal::TSTP),
        ("WINCH", Signal::WINCH),
        ("ABRT", Signal::ABORT),
        ("PIPE", Signal::PIPE),
        ("ALRM", Signal::ALARM),
    ];
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let by_name = known.iter().find(|(it, _)| *it == name).map(|(_, it)| *it);
    by_name.or_else(|| Signal::from_named_raw(text.parse().ok()?))
}

async fn write_stdin(
    State(house): Shared,
    Path((id, program)): OneOf,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Problem> {
    let form = headers.get(http::header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    if form != Some("application/octet-stream") {
        let text = "what a program reads is sent as application/octet-stream";
        return Err(Problem::new(Kind::MediaType, text));
    }
    let (_, client) = living(&house, &id)?;
    program_of(&client, program).await?;
    let mut body = body;
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| Problem::malformed(format!("the body broke off: {error}")))?;
        if let Ok(bytes) = frame.into_data() {
            // One that never reads must not keep its writer for ever.
            let written = client.input(program, &bytes);
            let written = tokio::time::timeout(Duration::from_mins(1), written).await;
            let late = |_| Problem::new(Kind::Unsupported, "the program does not read");
            written.map_err(late)??;
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn close_stdin(
    State(house): Shared,
    Path((id, program)): OneOf,
) -> Result<StatusCode, Problem> {
    let (_, client) = living(&house, &id)?;
    program_of(&client, program).await?;
    client.close_input(program).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn resize(
    State(house): Shared,
    Path((id, program)): OneOf,
    Json(asked): Json<TerminalSize>,
) -> Result<StatusCode, Problem> {
    let terminal = size(asked)?;
    let (_, client) = living(&house, &id)?;
    program_of(&client, program).await?;
    client.resize(program, terminal).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_go_by_name_and_number() {
        for text in ["TERM", "sigterm", "SIGTERM", "15"] {
            assert_eq!(named(text), Some(Signal::TERM), "{text}");
        }
        for text in ["", "SIG", "0", "-1", "999", "TERMINATE"] {
            assert_eq!(named(text), None, "{text}");
        }
    }
}
