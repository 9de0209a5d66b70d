//! Rooms: many programs in one sandbox.

use std::time::Duration;

use bulkhead_engine::room::{From, Piece, Program, Room, Which};
use bulkhead_spec::{Ending, Stdin};
use rustix::process::Signal;

use crate::{
    ask::{Ask, sh},
    house::{House, new_id},
    traces::listing,
};

async fn room(house: &House) -> Room {
    house.engine.open(&new_id(), Ask::on(sh(""), &house.workspace()).spec).await.unwrap()
}

/// What a program says until its end.
async fn said(program: &Program) -> String {
    let mut tail = program.look(From::Start);
    let mut text = Vec::new();
    while let Some(piece) = tail.next().await {
        match piece {
            Piece::Said { bytes, .. } => text.extend_from_slice(&bytes),
            Piece::Lost { bytes } => text.extend_from_slice(format!("[{bytes}]").as_bytes()),
        }
    }
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn programs_follow_each_other_in_one_room_and_see_what_the_last_one_left() {
    let house = House::new();
    let before = listing(&house.workspace());
    let room = room(&house).await;
    let first = room.exec(sh("echo kept > /tmp/note; hostname").exec, None).await.unwrap();
    assert_eq!(first.wait().await.ending, Ok(Ending::Exited { code: 0 }));
    let second = room.exec(sh("cat /tmp/note; exit 3").exec, None).await.unwrap();
    assert_eq!(second.wait().await.ending, Ok(Ending::Exited { code: 3 }));
    assert_eq!(said(&second).await, "kept\n");
    assert_eq!(room.programs().len(), 2);
    room.destroy().await.unwrap();
    assert_eq!(listing(&house.workspace()), before);
}

#[tokio::test]
async fn programs_run_side_by_side_and_one_is_stopped_without_the_other() {
    let house = House::new();
    let room = room(&house).await;
    let late = sh("sleep 60").stopped_after(Duration::from_millis(200)).exec;
    let late = room.exec(late, Some("late".to_owned())).await.unwrap();
    let mut ask = sh("read line; echo got $line").exec;
    ask.stdin = Stdin::Piped;
    let other = room.exec(ask, None).await.unwrap();
    assert!(matches!(late.wait().await.ending, Ok(Ending::TimedOut { .. })));
    assert_eq!(late.tag(), Some("late"));
    assert!(other.finished().is_none(), "one program's deadline ended another");
    other.write(b"word\n").await.unwrap();
    assert_eq!(other.wait().await.ending, Ok(Ending::Exited { code: 0 }));
    assert_eq!(said(&other).await, "got word\n");
    room.destroy().await.unwrap();
}

#[tokio::test]
async fn a_signal_from_its_caller_cancels_a_program() {
    let house = House::new();
    let room = room(&house).await;
    let program = room.exec(sh("sleep 60").exec, None).await.unwrap();
    program.signal(Signal::TERM);
    let ending = program.wait().await.ending;
    assert_eq!(ending, Ok(Ending::Canceled { signal: 15 }));
    let program = room.exec(sh("trap '' TERM INT; while :; do sleep 1; done").exec, None);
    let program = program.await.unwrap();
    program.kill();
    assert_eq!(program.wait().await.ending, Ok(Ending::Canceled { signal: 9 }));
    room.destroy().await.unwrap();
}

#[tokio::test]
async fn what_a_program_leaves_running_does_not_hold_up_its_end() {
    let house = House::new();
    let room = room(&house).await;
    let program = room.exec(sh("sleep 60 & echo done").exec, None).await.unwrap();
    let finished = tokio::time::timeout(Duration::from_secs(5), program.wait()).await.unwrap();
    assert_eq!(finished.ending, Ok(Ending::Exited { code: 0 }));
    assert_eq!(said(&program).await, "done\n");
    room.destroy().await.unwrap();
}

#[tokio::test]
async fn a_flood_that_nobody_takes_is_bounded_and_its_reader_knows() {
    let house = House::new();
    let room = room(&house).await;
    let flood = sh("head -c 8000000 /dev/zero; echo end >&2").exec;
    let program = room.exec(flood, None).await.unwrap();
    assert_eq!(program.wait().await.ending, Ok(Ending::Exited { code: 0 }));
    let mut tail = program.look(From::Start);
    let Some(Piece::Lost { bytes: lost }) = tail.next().await else { panic!("nothing lost") };
    let mut kept = 0;
    let mut complaints = Vec::new();
    while let Some(Piece::Said { which, bytes }) = tail.next().await {
        match which {
            Which::Stdout => kept += bytes.len() as u64,
            Which::Stderr => complaints.extend_from_slice(&bytes),
        }
    }
    assert_eq!(lost + kept, 8_000_000);
    assert!(kept <= 1 << 20, "{kept}");
    assert_eq!(complaints, b"end\n");
    room.destroy().await.unwrap();
}

#[tokio::test]
async fn a_destroyed_room_is_gone_and_its_programs_with_it() {
    let house = House::new();
    let room = room(&house).await;
    let program = room.exec(sh("sleep 60").exec, None).await.unwrap();
    room.destroy().await.unwrap();
    assert!(program.wait().await.ending.is_err());
    let again = room.exec(sh("true").exec, None).await;
    assert_eq!(again.unwrap_err().to_string(), "the room is gone");
    room.destroy().await.unwrap();
}
