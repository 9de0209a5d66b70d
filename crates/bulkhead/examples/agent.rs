//! A shell tool for an agent: one sandbox, one call for each line that a model wants to run.
//!
//! `cargo run --example agent -- 'uname -a' 'ls /'`, or on a server:
//! `cargo run --example agent -- --host http://127.0.0.1:3000 KEY 'uname -a'`

use std::{io::Write as _, time::Duration};

use bulkhead::{Host, Sandbox, SandboxError};

#[tokio::main]
async fn main() -> Result<(), SandboxError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (host, lines) = match words.as_slice() {
        [flag, address, key, lines @ ..] if flag == "--host" => {
            (Host::remote(address, Some(key))?, lines)
        }
        lines => (Host::local()?, lines),
    };
    let sandbox = Sandbox::builder()
        .on(&host)
        .memory(512 << 20)
        .pids(128)
        .ttl(Duration::from_mins(10))
        .create()
        .await?;
    for line in lines {
        let ran = sandbox.shell(line).timeout(Duration::from_secs(30)).await?;
        // What a model gets to see: how it ended, and what it said.
        let told = format!(
            "$ {line}\nexit code {} after {:?}\n{}{}",
            ran.exit_code,
            ran.duration,
            ran.stdout(),
            ran.stderr()
        );
        std::io::stdout().write_all(told.as_bytes()).map_err(SandboxError::Unreachable)?;
    }
    sandbox.close().await
}
