//! Programs: the same whatever carries their streams.

use bulkhead_backends::{
    ProcessHandle as _, Streams,
    guest::{After, NotStarted, Order, Status},
};
use bulkhead_linux::launch::Stage;
use bulkhead_spec::Terminal;
use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::house::{BOTH, House, Over, end, reading_shell, shell, soon};

#[tokio::test]
async fn programs_speak_and_end() {
    for over in BOTH {
        let house = House::build(over);
        let said = house.say("echo $NAME; pwd; echo no >&2; exit 3").await;
        assert_eq!(said, ("value\n/\n".to_owned(), "no\n".to_owned(), Status::Exited(3)));
        let (_, _, status) = house.say("kill -9 $$").await;
        assert_eq!(status, Status::Signaled(9), "{over:?}");
    }
}

#[tokio::test]
async fn programs_read_until_their_input_ends() {
    for over in BOTH {
        let house = House::build(over);
        let mut program = house.start(reading_shell("cat; echo done")).await;
        let Streams { stdin, mut stdout, .. } = program.take_streams().unwrap();
        let mut stdin = stdin.unwrap();
        // More than fits on the way, so that both directions must flow at once.
        let much = "0123456789abcdef".repeat(100_000);
        let sent = much.clone();
        let writing = tokio::spawn(async move {
            stdin.write_all(sent.as_bytes()).await.unwrap();
            stdin.shutdown().await.unwrap();
        });
        let mut said = String::new();
        soon(stdout.read_to_string(&mut said)).await.unwrap();
        writing.await.unwrap();
        assert!(said == much + "done\n", "{over:?}: {} bytes came back", said.len());
        assert_eq!(end(&mut program).await.status, Status::Exited(0));
    }
}

#[tokio::test]
async fn a_program_that_reads_no_more_breaks_the_pipe() {
    for over in BOTH {
        let house = House::build(over);
        let mut program = house.start(reading_shell("exec <&-; echo closed; sleep 1000")).await;
        let Streams { stdin, mut stdout, .. } = program.take_streams().unwrap();
        let mut stdin = stdin.unwrap();
        soon(stdout.read_exact(&mut [0; 7])).await.unwrap();
        let error = soon(async {
            loop {
                if let Err(error) = stdin.write_all(b"hello").await {
                    return error;
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe, "{over:?}");
    }
}

#[tokio::test]
async fn a_program_whose_output_nobody_wants_is_told_so() {
    for over in BOTH {
        let house = House::build(over);
        let mut program = house.start(shell("exec yes")).await;
        drop(program.take_streams());
        assert_eq!(end(&mut program).await.status, Status::Signaled(13), "{over:?}");
    }
}

#[tokio::test]
async fn what_was_said_has_arrived_when_the_end_is_told() {
    let house = House::build(Over::Pipes);
    for _ in 0..20 {
        // A child of the program holds the pipe open, and must not hold up the end.
        let script = "sleep 1000 & head -c 50000 /dev/zero | tr '\\0' x";
        let mut program = house.start(Order { after: After::Stay, ..shell(script) }).await;
        let Streams { mut stdout, .. } = program.take_streams().unwrap();
        assert_eq!(end(&mut program).await.status, Status::Exited(0));
        let mut said = vec![0; 50_000];
        let now = tokio::time::timeout(std::time::Duration::ZERO, stdout.read_exact(&mut said));
        now.await.expect("it has not arrived").unwrap();
        assert!(said.iter().all(|it| *it == b'x'));
    }
    drop(house);
}

#[tokio::test]
async fn the_last_program_takes_the_guest_with_it_and_loses_nothing() {
    for over in BOTH {
        let mut house = House::build(over);
        let script = "sleep 1000 & head -c 200000 /dev/zero";
        let mut program = house.start(Order { after: After::End, ..shell(script) }).await;
        let Streams { mut stdout, .. } = program.take_streams().unwrap();
        let reading = tokio::spawn(async move {
            let mut said = vec![0; 200_000];
            stdout.read_exact(&mut said).await.map(drop)
        });
        assert_eq!(end(&mut program).await.status, Status::Exited(0));
        soon(reading).await.unwrap().unwrap();
        assert_eq!(soon(house.child.wait()).await.unwrap().code(), Some(0), "{over:?}");
    }
}

#[tokio::test]
async fn a_terminal_is_one_and_changes_its_size() {
    for over in BOTH {
        let house = House::build(over);
        let terminal = Some(Terminal { rows: 11, columns: 22 });
        let script = "stty size; read line; stty size; echo got $line; tty <&2 >/dev/null";
        let mut program = house.start(Order { terminal, ..shell(script) }).await;
        let Streams { stdin, mut stdout, stderr } = program.take_streams().unwrap();
        assert!(stderr.is_none());
        let mut first = [0; 7];
        soon(stdout.read_exact(&mut first)).await.unwrap();
        assert_eq!(&first, b"11 22\r\n");
        let size = Terminal { rows: 33, columns: 44 };
        program.handle().resize(size).await.unwrap();
        let mut stdin = stdin.unwrap();
        stdin.write_all(b"hello\n").await.unwrap();
        let mut said = Vec::new();
        // A terminal whose programs are gone ends with an error; what it said comes first.
        drop(soon(stdout.read_to_end(&mut said)).await);
        assert_eq!(String::from_utf8(said).unwrap(), "hello\r\n33 44\r\ngot hello\r\n");
        assert_eq!(end(&mut program).await.status, Status::Exited(0), "{over:?}");
    }
}

#[tokio::test]
async fn signals_reach_the_program_they_are_for() {
    for over in BOTH {
        let house = House::build(over);
        let mut one = house.start(shell("exec sleep 1000")).await;
        let mut two = house.start(shell("exec sleep 1000")).await;
        two.handle().signal(Signal::TERM).await.unwrap();
        assert_eq!(end(&mut two).await.status, Status::Signaled(15));
        one.handle().signal(Signal::KILL).await.unwrap();
        assert_eq!(end(&mut one).await.status, Status::Signaled(9), "{over:?}");
    }
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_told_with_how_far_it_came() {
    for over in BOTH {
        let house = House::build(over);
        let missing = Order { argv: vec![b"no-such-program".to_vec()], ..reading_shell("") };
        let lost = Order { dir: b"/no/such/dir".to_vec(), ..shell("true") };
        let long = Order { argv: vec![vec![b'x'; 3 << 20]], ..shell("true") };
        for (order, expected) in [(missing, Stage::Execute), (lost, Stage::Dir)] {
            let refused = soon(house.link.start(order)).await.err().unwrap();
            let NotStarted::Refused { stage, source } = refused else { panic!("{refused:?}") };
            assert_eq!((stage, source.raw_os_error()), (expected, Some(2)));
        }
        let refused = soon(house.link.start(long)).await.err().unwrap();
        assert!(matches!(refused, NotStarted::Failed(_)), "{refused:?}");
        assert_eq!(house.say("echo fine").await.0, "fine\n", "{over:?}");
    }
}

#[tokio::test]
async fn many_programs_run_at_once() {
    for over in BOTH {
        let house = House::build(over);
        let mut programs = Vec::new();
        for at in 0..64 {
            programs.push(house.start(reading_shell(&format!("read it; echo {at} $it"))).await);
        }
        let mut streams: Vec<_> =
            programs.iter_mut().map(|it| it.take_streams().unwrap()).collect();
        for streams in streams.iter_mut().rev() {
            streams.stdin.as_mut().unwrap().write_all(b"hello\n").await.unwrap();
        }
        for (at, (program, streams)) in programs.iter_mut().zip(&mut streams).enumerate() {
            let mut said = String::new();
            soon(streams.stdout.read_to_string(&mut said)).await.unwrap();
            assert_eq!(said, format!("{at} hello\n"));
            assert_eq!(end(program).await.status, Status::Exited(0), "{over:?}");
        }
    }
}

#[tokio::test]
async fn a_guest_ends_with_its_link() {
    for over in BOTH {
        let House { link, mut child } = House::build(over);
        let mut program = link.start(shell("exec sleep 1000")).await.unwrap();
        drop(program.take_streams());
        drop(link);
        assert!(child.try_wait().unwrap().is_none(), "a program holds the link");
        drop(program);
        assert_eq!(soon(child.wait()).await.unwrap().code(), Some(0), "{over:?}");
    }
}

#[tokio::test]
async fn a_guest_that_was_killed_is_gone_for_everybody() {
    for over in BOTH {
        let mut house = House::build(over);
        let mut program = house.start(shell("exec sleep 5")).await;
        let Streams { mut stdout, .. } = program.take_streams().unwrap();
        house.child.start_kill().unwrap();
        assert_eq!(soon(program.wait()).await.unwrap(), None);
        soon(house.child.wait()).await.unwrap();
        if over == Over::Pipes {
            assert_eq!(soon(stdout.read_to_end(&mut Vec::new())).await.unwrap(), 0);
        }
        assert!(house.link.is_over());
        assert!(soon(house.link.start(shell("true"))).await.is_err());
        assert!(soon(house.link.ready()).await.is_err());
    }
}
