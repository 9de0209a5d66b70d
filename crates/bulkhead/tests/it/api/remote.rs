//! The command, with a server: `BULKHEAD_HOST`.

use std::{io::Write as _, process::Stdio, time::Duration};

use super::Server;
use crate::host::{Ran, within};

/// What the command says when a server is named.
fn there<const N: usize>(server: &Server, words: [&str; N]) -> Ran {
    let mut command = server.host.command(words);
    server.host.ended(at(server, &mut command))
}

fn at<'a>(
    server: &Server,
    command: &'a mut std::process::Command,
) -> &'a mut std::process::Command {
    if server.address.is_empty() {
        command.env("BULKHEAD_HOST", format!("unix://{}", server.socket().display()))
    } else {
        command
            .env("BULKHEAD_HOST", format!("http://{}", server.address))
            .env("BULKHEAD_KEY", &server.key)
    }
}

fn said(ran: &Ran) -> &str {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    &ran.stdout
}

/// Every verb about rooms.
fn verbs(server: &Server) {
    let made = there(server, ["create", "--name", "far", "--label", "a=b", "--memory", "256m"]);
    assert_eq!(said(&made), "far\n");
    assert_eq!(said(&there(server, ["ls", "-q", "--label", "a=b"])), "far\n");
    assert!(said(&there(server, ["ls"])).contains("running"));
    let ran = there(server, ["exec", "-e", "X=y", "far", "sh", "-c", "echo $X; exit 5"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), "y\n"));

    let mut cat = server.host.command(["exec", "-i", "far", "cat"]);
    let cat = at(server, &mut cat).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut cat = cat.spawn().unwrap();
    cat.stdin.take().unwrap().write_all(b"through\n").unwrap();
    let out = cat.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout), "through\n");

    server.host.write("project/tree/a/b", "in a tree");
    let tree = server.host.project().join("tree");
    let back = server.host.project().join("back");
    said(&there(server, ["cp", tree.to_str().unwrap(), "far:/tmp/tree"]));
    said(&there(server, ["cp", "far:/tmp/tree", back.to_str().unwrap()]));
    assert_eq!(std::fs::read_to_string(back.join("a/b")).unwrap(), "in a tree");

    let detached =
        there(server, ["exec", "-d", "--tag", "t", "far", "sh", "-c", "echo log; sleep 99"]);
    assert!(said(&detached).trim().parse::<u32>().is_ok());
    within(Duration::from_secs(20), || {
        there(server, ["logs", "--program", "t", "far"]).stdout == "log\n"
    });
    assert!(said(&there(server, ["inspect", "far"])).contains("\"MemoryBounded\""));
    assert!(said(&there(server, ["stats"])).contains("far"));
    assert_eq!(said(&there(server, ["pause", "far"])), "far\n");
    assert!(said(&there(server, ["ls"])).contains("paused"));
    assert_eq!(said(&there(server, ["resume", "fa"])), "far\n");
    let lives = there(server, ["rm", "far"]);
    assert_eq!(lives.code, Some(1), "{}", lives.stderr);
    assert_eq!(said(&there(server, ["stop", "-t", "0s", "far"])), "far\n");
    assert_eq!(said(&there(server, ["wait", "far"])), "far\n");
    assert!(said(&there(server, ["ls", "--all"])).contains("ended"));
    assert_eq!(said(&there(server, ["prune"])), "far\n");
    assert_eq!(said(&there(server, ["ls", "--all", "-q"])), "");
}

#[test]
fn every_verb_about_rooms_works_over_the_network() {
    verbs(&Server::start());
}

#[test]
fn every_verb_about_rooms_works_over_the_socket() {
    verbs(&Server::on_socket());
}

#[test]
fn what_cannot_be_elsewhere_is_refused_by_name() {
    let server = Server::start();
    for (words, told) in [
        (["run", "true", ""], "`bulkhead run` works on this machine"),
        (["plan", "true", ""], "`bulkhead plan` works on this machine"),
        (["create", "--mount", "/tmp:/x"], "`--mount` is about this machine"),
        (["create", "--workspace", "."], "`--workspace` is about this machine"),
        (["create", "--backend", "none"], "`--backend` is about this machine"),
    ] {
        let words = words.into_iter().filter(|it| !it.is_empty());
        let mut command = server.host.command(words);
        let ran = server.host.ended(at(&server, &mut command));
        assert_eq!(ran.code, Some(125), "{}", ran.stderr);
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
    }
    let unknown = there(&server, ["exec", "none", "true"]);
    assert_eq!(unknown.code, Some(125));
    assert!(unknown.stderr.contains("there is no room `none`"), "{}", unknown.stderr);
    let mut command = server.host.command(["ls"]);
    let ran = command.env("BULKHEAD_HOST", format!("http://{}", server.address));
    let ran = server.host.ended(ran.env("BULKHEAD_KEY", "e2b_wrong"));
    assert!(ran.stderr.contains("opens nothing"), "{}", ran.stderr);
    let mut command = server.host.command(["ls"]);
    let ran = server.host.ended(command.env("BULKHEAD_HOST", "ftp://x"));
    assert!(ran.stderr.contains("is no address of a server"), "{}", ran.stderr);
}

#[test]
fn the_key_is_found_in_its_file() {
    let server = Server::start();
    server.host.write("home/.config/bulkhead/key", &format!("{}\n", server.key));
    let mut command = server.host.command(["ls", "-q"]);
    let ran = command.env("BULKHEAD_HOST", format!("http://{}", server.address));
    assert_eq!(said(&server.host.ended(ran)), "");
}

#[test]
fn the_library_finds_the_same_sandbox_here_and_there() {
    let server = Server::start();
    let address = format!("http://{}", server.address);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let there = bulkhead::Host::remote(&address, Some(&server.key)).unwrap();
        let here = bulkhead::Host::local().unwrap();
        for host in [there, here] {
            let sandbox = bulkhead::Sandbox::builder()
                .on(&host)
                .env("A", "b")
                .memory(256 << 20)
                .create()
                .await
                .unwrap();
            let ran = sandbox.shell("echo $A; cat; exit 4").stdin("in").await.unwrap();
            assert_eq!((ran.stdout().as_ref(), ran.exit_code), ("b\nin", 4));
            sandbox.files().write("x/y", b"bytes").await.unwrap();
            assert_eq!(sandbox.files().list("x").await.unwrap(), ["y"]);
            assert_eq!(sandbox.files().read("x/y").await.unwrap(), b"bytes");
            assert!(!sandbox.files().exists("z").await.unwrap());
            let mut process = sandbox.exec(["cat"]).start().await.unwrap();
            process.write(b"said").await.unwrap();
            assert_eq!(process.next().await.unwrap(), bulkhead::Said::Stdout(b"said".to_vec()));
            process.signal(15).await.unwrap();
            assert_eq!(process.wait().await.unwrap().0.exit_code(), 143);
            let late = sandbox.shell("sleep 9").timeout(Duration::from_millis(100)).await;
            assert_eq!(late.unwrap().exit_code, 124);
            let id = sandbox.id().to_owned();
            assert_eq!(host.list().await.unwrap(), [id.as_str()]);
            assert!(host.get(&id).await.unwrap().files().exists("x").await.unwrap());
            sandbox.close().await.unwrap();
            assert!(host.list().await.unwrap().is_empty());
        }
    });
}
