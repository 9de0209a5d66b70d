//! A room ends while somebody is busy with it: everybody is told at once.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::Rooms;
use crate::host::{Ran, hear, within};

const SOON: Duration = Duration::from_secs(5);

/// Kills the room `shop`, and returns how `child` ended, which must be soon.
fn killed_under(rooms: &Rooms, child: Child) -> Ran {
    rooms.fine(&["kill", "shop"]);
    soon(child)
}

fn soon(mut child: Child) -> Ran {
    let end = Instant::now() + SOON;
    // Nobody else reads what it says.
    let text = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                pipe.read_to_end(&mut bytes).unwrap();
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let stdout = text(child.stdout.take().map(|it| Box::new(it) as _));
    let stderr = text(child.stderr.take().map(|it| Box::new(it) as _));
    while child.try_wait().unwrap().is_none() {
        if end < Instant::now() {
            child.kill().unwrap();
        }
        thread::sleep(Duration::from_millis(5));
    }
    let code = child.wait().unwrap().code();
    Ran { code, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

/// It could not do its work, and says so in a sentence with a way on.
fn is_told(ran: &Ran, code: i32) {
    assert_eq!(ran.code, Some(code), "{ran:?}");
    assert!(ran.stderr.contains("error: ") && ran.stderr.contains("hint: "), "{ran:?}");
}

/// A room in which a program says `ready`, under the tag `it`, and stays.
fn busy() -> Rooms {
    let rooms = Rooms::with("shop");
    rooms.fine(&[
        "exec",
        "-d",
        "--tag",
        "it",
        "shop",
        "--",
        "sh",
        "-c",
        "echo ready; sleep 60",
    ]);
    rooms
}

#[test]
fn whoever_listens_to_a_program() {
    let listen: [(&[&str], i32); 2] = [
        (&["logs", "-f", "--program", "it", "shop"], 1),
        (&["attach", "--program", "it", "shop"], 125),
    ];
    for (args, code) in listen {
        let rooms = busy();
        let mut child = rooms.host.command(args).stdin(Stdio::piped()).spawn().unwrap();
        hear(&mut child, "ready");
        is_told(&killed_under(&rooms, child), code);
    }
}

#[test]
fn whoever_runs_a_program() {
    let rooms = Rooms::with("shop");
    let run = ["exec", "-i", "shop", "--", "sh", "-c", "echo ready; cat"];
    let mut child = rooms.host.command(run).stdin(Stdio::piped()).spawn().unwrap();
    hear(&mut child, "ready");
    is_told(&killed_under(&rooms, child), 125);
}

#[test]
fn whoever_uses_a_port() {
    let rooms = Rooms::with("shop");
    let mut child = rooms.host.command(["port", "shop", "8000:0"]).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
    let ran = killed_under(&rooms, child);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(ran.stderr, "error: the room `shop` has ended [BH-E060]\n", "{ran:?}");
    assert!(std::net::TcpStream::connect(address.trim()).is_err());
}

#[test]
fn whoever_waits_for_its_end() {
    let rooms = busy();
    let child = rooms.host.command(["wait", "shop"]).spawn().unwrap();
    let ran = killed_under(&rooms, child);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "shop\n"), "{ran:?}");
}

#[test]
fn whoever_copies_into_it_what_has_yet_to_come() {
    let rooms = Rooms::with("shop");
    let copy = ["cp", "-", "shop:/tmp/late"];
    let mut child = rooms.host.command(copy).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"some").unwrap();
    within(SOON, || rooms.inside("cat /tmp/.bulkhead-* 2>/dev/null || true") == "some");
    // Nothing more comes, and nothing ends.
    is_told(&killed_under(&rooms, child), 1);
    drop(stdin);
}

#[test]
fn whoever_copies_something_large_into_it() {
    let rooms = Rooms::with("shop");
    let large = rooms.host.path().join("large");
    File::create(&large).unwrap().set_len(1 << 40).unwrap();
    let child =
        rooms.host.command(["cp".as_ref(), large.as_os_str(), "shop:/tmp/large".as_ref()]);
    let child = { child }.spawn().unwrap();
    within(SOON, || rooms.inside("ls /tmp") == "large\n");
    is_told(&killed_under(&rooms, child), 1);
}

#[test]
fn whoever_copies_something_large_out_of_it() {
    let rooms = Rooms::with("shop");
    rooms.inside("truncate -s 1T /tmp/large");
    let to = rooms.host.path().join("to");
    fs::create_dir(&to).unwrap();
    let child = rooms.host.command(["cp".as_ref(), "shop:/tmp/large".as_ref(), to.as_os_str()]);
    let child = { child }.spawn().unwrap();
    within(SOON, || fs::read_dir(&to).unwrap().count() == 1);
    is_told(&killed_under(&rooms, child), 1);
    // Half of a file is none.
    assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
}

/// What came until then must never look like the whole file, whoever notices first.
#[test]
fn whoever_reads_a_file_of_it() {
    let ends: [fn(&Rooms); 2] =
        [|rooms| drop(rooms.fine(&["kill", "shop"])), kill_first_process];
    for end in ends {
        let rooms = Rooms::with("shop");
        rooms.inside("truncate -s 1T /tmp/large");
        let mut child = rooms.host.command(["cp", "shop:/tmp/large", "-"]).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 4096]).unwrap();
        let drained = thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        end(&rooms);
        is_told(&soon(child), 1);
        drained.join().unwrap().unwrap();
    }
}

/// Kills the first process of the room `shop`, a child of its shim.
fn kill_first_process(rooms: &Rooms) {
    let shim = format!("PPid:\t{}\n", rooms.shim("shop").as_raw_nonzero());
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let status = fs::read_to_string(process.path().join("status")).unwrap_or_default();
        let id = process.file_name().to_str().and_then(|it| it.parse().ok());
        if let Some(id) = id.and_then(Pid::from_raw).filter(|_| status.contains(&shim)) {
            kill_process(id, Signal::KILL).unwrap();
        }
    }
}
