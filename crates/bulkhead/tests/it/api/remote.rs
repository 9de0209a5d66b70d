//! The command, with a server: `BULKHEAD_HOST`.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::Stdio,
    time::Duration,
};

use super::Server;
use crate::{
    host::{Ran, within},
    terminal::{Person, open_terminal},
};

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
fn checkpoints_and_copies_are_made_over_the_network() {
    let server = Server::start();
    let say = |words: &[&str]| {
        let mut command = server.host.command(words);
        said(&server.host.ended(at(&server, &mut command))).to_owned()
    };
    say(&["create", "--name", "far", "--label", "a=b"]);
    say(&["exec", "far", "sh", "-c", "echo kept > /tmp/note"]);
    assert_eq!(say(&["checkpoint", "create", "far"]), "far-1\n");
    let info: serde_json::Value =
        serde_json::from_str(&say(&["checkpoint", "create", "far", "named", "--json"]))
            .unwrap();
    assert_eq!((&info["name"], &info["room"]), (&"named".into(), &"far".into()));
    assert_eq!(say(&["checkpoint", "ls", "-q"]), "far-1\nnamed\n");
    assert!(say(&["checkpoint", "ls"]).contains("ROOM\nfar-1"));
    let again = there(&server, ["checkpoint", "create", "far", "named"]);
    assert!(again.stderr.contains("exists already"), "{}", again.stderr);

    say(&["exec", "far", "sh", "-c", "echo changed > /tmp/note"]);
    assert_eq!(say(&["checkpoint", "restore", "named", "--name", "beside"]), "beside\n");
    assert_eq!(say(&["exec", "beside", "cat", "/tmp/note"]), "kept\n");
    let runs = there(&server, ["checkpoint", "restore", "named"]);
    assert!(runs.stderr.contains("the room `far` runs"), "{}", runs.stderr);
    assert_eq!(say(&["exec", "far", "cat", "/tmp/note"]), "changed\n");
    assert_eq!(say(&["checkpoint", "restore", "--force", "named"]), "far\n");
    assert_eq!(say(&["exec", "far", "cat", "/tmp/note"]), "kept\n");
    assert_eq!(say(&["ls", "-q", "--label", "a=b"]), "far\n");

    assert_eq!(say(&["fork", "-n", "2", "far"]), "far-1\nfar-2\n");
    assert_eq!(say(&["exec", "far-2", "cat", "/tmp/note"]), "kept\n");
    assert!(say(&["fork", "--name", "x", "--json", "far"]).contains("\"x-1\""));
    assert_eq!(say(&["checkpoint", "rm", "far-1", "named"]), "far-1\nnamed\n");
    assert_eq!(say(&["checkpoint", "ls", "-q"]), "");
    let absent = there(&server, ["checkpoint", "restore", "named"]);
    assert!(absent.stderr.contains("there is no checkpoint `named`"), "{}", absent.stderr);
    let odd = there(&server, ["checkpoint", "rm", "a/b"]);
    assert!(odd.stderr.contains("there is no checkpoint `a/b`"), "{}", odd.stderr);
    assert_eq!(say(&["kill", "far", "far-1", "far-2", "x-1", "beside"]).lines().count(), 5);
    assert!(!say(&["ls", "--all"]).contains("running"));
}

#[test]
fn a_terminal_reaches_programs_over_the_network() {
    let server = Server::start();
    said(&there(&server, ["create", "--name", "far"]));
    let sits = |words: &[&str]| {
        let (ours, terminal) = open_terminal();
        let mut command = server.host.command(words);
        Person::starts(ours, terminal, at(&server, &mut command))
    };
    let line = "stty size; read word; echo \"heard $word\"; read word; exit 3";
    let mut person = sits(&["exec", "-it", "--tag", "talk", "far", "sh", "-c", line]);
    person.sees("30 100");
    // Another one joins, and both see what is said.
    let mut other = sits(&["attach", "--program", "talk", "far"]);
    other.sees("30 100");
    other.types("this\n");
    person.sees("heard this");
    other.sees("heard this");
    person.types("\n");
    assert_eq!((person.exit_code(), other.exit_code()), (Some(3), Some(3)));
}

#[test]
fn a_port_is_published_over_the_network() {
    let server = Server::start();
    said(&there(&server, ["create", "--name", "far"]));
    let listening = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=8000)";
    said(&there(&server, ["exec", "-d", "far", "python3", "-c", listening]));
    let mut command = server.host.command(["port", "far", "8000:0"]);
    let command = at(&server, &mut command).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut address = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
    within(Duration::from_secs(20), || {
        let mut stream = TcpStream::connect(address.trim()).unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).is_ok() && text.starts_with("HTTP/1.0 200")
    });
    // It ends with its room.
    assert_eq!(said(&there(&server, ["kill", "far"])), "far\n");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn what_cannot_be_elsewhere_is_refused_by_name() {
    let server = Server::start();
    for (words, told) in [
        (["run", "true", ""], "`bulkhead run` works on this machine"),
        (["plan", "true", ""], "`bulkhead plan` works on this machine"),
        (["image", "ls", ""], "`bulkhead image` works on this machine"),
        (["policy", "ls", ""], "`bulkhead policy` works on this machine"),
        (["start", "x", ""], "`bulkhead start` works on this machine"),
        (["create", "--mount", "/tmp:/x"], "`--mount` is about this machine"),
        (["create", "--workspace", "."], "`--workspace` is about this machine"),
        (["create", "--backend", "none"], "`--backend` is about this machine"),
    ] {
        let words = words.into_iter().filter(|it| !it.is_empty());
        let mut command = server.host.command(words);
        let ran = server.host.ended(at(&server, &mut command));
        assert!(matches!(ran.code, Some(125 | 1)), "{}", ran.stderr);
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
