//! Input, output, and ends that are not there.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::fd::OwnedFd,
    process::Stdio,
    time::Duration,
};

use crate::host::{Host, within};

#[test]
fn input_is_passed_on_whatever_it_is() {
    let host = Host::new();
    let large = vec![b'x'; 3 << 20];
    assert_eq!(
        host.fed(&["run", "--", "wc", "-c"], &large).stdout.trim(),
        large.len().to_string()
    );
    let file = host.write("input", "from a file\n");
    let mut command = host.command(["run", "--", "cat"]);
    assert_eq!(host.ended(command.stdin(File::open(file).unwrap())).stdout, "from a file\n");
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    (&ours).write_all(b"from a socket\n").unwrap();
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    let mut command = host.command(["run", "--", "cat"]);
    assert_eq!(host.ended(command.stdin(OwnedFd::from(theirs))).stdout, "from a socket\n");
    assert_eq!(host.bulkhead(["run", "--", "cat"]).stdout, "");
}

#[test]
fn output_reaches_a_socket_and_a_file() {
    let host = Host::new();
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut command = host.command(["run", "--", "seq", "20000"]);
    let mut child = command.stdout(OwnedFd::from(theirs)).spawn().unwrap();
    drop(command);
    let mut text = String::new();
    ours.read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(text.lines().count(), 20000);
    let path = host.path().join("output");
    let mut command = host.command(["run", "--", "seq", "20000"]);
    assert!(command.stdout(File::create(&path).unwrap()).status().unwrap().success());
    assert_eq!(std::fs::read_to_string(path).unwrap(), text);
}

#[test]
fn a_reader_that_leaves_ends_the_program_quietly() {
    let host = Host::new();
    let mut child = host.command(["run", "--quiet", "--", "yes"]).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut line = [0; 2];
    stdout.read_exact(&mut line).unwrap();
    drop(stdout);
    within(Duration::from_secs(5), || child.try_wait().unwrap().is_some());
    let mut complaints = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
    assert_eq!((child.wait().unwrap().code(), complaints.as_str()), (Some(141), ""));
}

#[test]
fn a_writer_that_stays_does_not_keep_us() {
    let host = Host::new();
    let mut child = host.command(["run", "--", "true"]).stdin(Stdio::piped()).spawn().unwrap();
    within(Duration::from_secs(5), || child.try_wait().unwrap().is_some());
}

#[test]
fn streams_that_are_closed_are_no_trouble() {
    let host = Host::new();
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let mut command =
            host.shell(&format!("\"$0\" run -- sh -c 'cat; echo x; exit 5' {closed}"));
        assert_eq!(host.ended(&mut command).code, Some(5), "{closed}");
    }
}

#[test]
fn a_grandchild_that_holds_the_output_cannot_hang_us() {
    let host = Host::new();
    let script = "(setsid sleep 300 &) ; echo done";
    let mut child = host.command(["run", "--", "sh", "-c", script]).spawn().unwrap();
    within(Duration::from_secs(5), || child.try_wait().unwrap().is_some());
}

#[test]
fn flags_that_others_share_are_left_alone() {
    let host = Host::new();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let mut command = host.command(["run", "--", "echo", "x"]);
    let mut child = command.stdout(writer.try_clone().unwrap()).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    let flags = rustix::fs::fcntl_getfl(&writer).unwrap();
    assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
    drop(reader);
}
