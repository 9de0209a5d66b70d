//! Rooms that a shim holds, and what their clients see.

use std::{fs, sync::Arc, time::Duration};

use bulkhead_engine::{
    Engine,
    room::{From, Which},
    rooms::{Client, ClientError, Journal, Life, Lifetime, Ready, Record, Reply, Why, hold},
};
use bulkhead_policy::Policy;
use bulkhead_spec::{Ending, Span, Stdin};
use rustix::process::Signal;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    ask::{Ask, sh},
    house::{House, new_id},
};

pub(crate) fn journal(house: &House) -> Journal {
    Journal::new(&house.path().join("state"), &house.path().join("runtime"))
}

pub(crate) fn record(house: &House, name: &str) -> Record {
    let spec = Ask::on(sh(""), &house.workspace()).spec;
    Record::new(new_id(), name.to_owned(), spec, Policy::default())
}

/// A shim, as a task of this process.
pub(crate) async fn shim(
    house: &House,
    record: Record,
) -> (Result<Client, String>, JoinHandle<()>) {
    let (engine, journal): (Arc<Engine>, _) = (Arc::clone(&house.engine), journal(house));
    let socket = journal.socket(&record.id);
    let (said, ready) = oneshot::channel();
    let task = tokio::spawn(async move {
        hold(engine, &journal, record, |ready| said.send(ready).unwrap()).await.unwrap();
    });
    let client = match ready.await.unwrap() {
        Ready::Yes => Ok(Client::new(socket)),
        Ready::Journal(error) => Err(error.to_string()),
        Ready::Room(error) => Err(error.to_string()),
        Ready::System(error) => Err(error.to_string()),
    };
    (client, task)
}

/// What a program says on its stdout until its end, and how it ended.
pub(crate) async fn heard(client: &Client, script: &str) -> (String, Ending) {
    let mut attached = client.exec(sh(script).exec, None).await.unwrap();
    let mut text = Vec::new();
    loop {
        match attached.ear.next().await.unwrap() {
            Reply::Said(Which::Stdout, bytes) => text.extend(bytes),
            Reply::Said(Which::Stderr, bytes) => panic!("{}", String::from_utf8_lossy(&bytes)),
            Reply::Ended(ending, _) => {
                return (String::from_utf8(text).unwrap(), ending.unwrap());
            }
            other @ (Reply::Lost(_) | Reply::Running) => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn clients_come_and_go_and_the_room_stays() {
    let house = House::new();
    let (client, shim) = shim(&house, record(&house, "mine")).await;
    let client = client.unwrap();
    assert_eq!(heard(&client, "echo a > /tmp/x").await.1, Ending::Exited { code: 0 });
    let (text, ending) = heard(&client, "cat /tmp/x; exit 4").await;
    assert_eq!((text.as_str(), ending), ("a\n", Ending::Exited { code: 4 }));
    let info = client.inspect().await.unwrap();
    assert_eq!((info.name.as_str(), info.paused), ("mine", false));
    assert!(client.stats().await.unwrap().wall_seconds > 0.0);
    assert_eq!(client.programs().await.unwrap().len(), 2);

    let journal = journal(&house);
    assert_eq!(journal.find("mi").unwrap().life, Life::Alive);
    client.end(Duration::ZERO).await.unwrap();
    shim.await.unwrap();
    let found = journal.find("mine").unwrap();
    assert!(matches!(&found.life, Life::Ended(end) if end.why == Why::Stopped), "{found:?}");
    assert!(matches!(client.stats().await, Err(ClientError::Gone(_))));
    journal.forget(&found.record.id).unwrap();
    assert!(journal.list().unwrap().is_empty());
}

#[tokio::test]
async fn a_program_outlives_its_client_and_another_joins_it() {
    let house = House::new();
    let (client, shim) = shim(&house, record(&house, "r")).await;
    let client = client.unwrap();
    let mut ask = sh("echo first; read x; echo $x").exec;
    ask.stdin = Stdin::Piped;
    let program = client.spawn(ask, Some("it".to_owned())).await.unwrap();
    let mut attached = client.attach(program, From::Start).await.unwrap();
    let first = attached.ear.next().await.unwrap();
    assert_eq!(first, Reply::Said(Which::Stdout, b"first\n".to_vec()));
    drop(attached);
    client.input(program, b"second\n").await.unwrap();
    let mut attached = client.attach(program, From::Start).await.unwrap();
    let mut text = Vec::new();
    let ending = loop {
        match attached.ear.next().await.unwrap() {
            Reply::Said(_, bytes) => text.extend(bytes),
            Reply::Ended(ending, _) => break ending,
            other @ (Reply::Lost(_) | Reply::Running) => panic!("{other:?}"),
        }
    };
    assert_eq!(ending, Ok(Ending::Exited { code: 0 }));
    assert_eq!(text, b"first\nsecond\n");
    client.end(Duration::ZERO).await.unwrap();
    shim.await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_done_is_said_and_the_room_goes_on() {
    let house = House::new();
    let (client, shim) = shim(&house, record(&house, "r")).await;
    let client = client.unwrap();
    let mut ask = sh("").exec;
    ask.argv = vec!["/no/such/program".into()];
    let Err(ClientError::Failed(failed)) = client.exec(ask, None).await else { panic!() };
    assert_eq!((failed.kind.as_str(), failed.exit), ("not_found", 127));
    let gone = client.signal(99, Signal::TERM).await;
    assert!(gone.unwrap_err().to_string().contains("no program 99"));
    assert_eq!(heard(&client, "true").await.1, Ending::Exited { code: 0 });
    client.end(Duration::ZERO).await.unwrap();
    shim.await.unwrap();
}

#[tokio::test]
async fn two_living_rooms_cannot_have_one_name() {
    let house = House::new();
    let (client, first) = shim(&house, record(&house, "same")).await;
    let (refused, second) = shim(&house, record(&house, "same")).await;
    assert_eq!(refused.unwrap_err(), "a room called `same` exists already");
    second.await.unwrap();
    client.unwrap().end(Duration::ZERO).await.unwrap();
    first.await.unwrap();
    let (again, third) = shim(&house, record(&house, "same")).await;
    again.unwrap().end(Duration::ZERO).await.unwrap();
    third.await.unwrap();
}

#[tokio::test]
async fn a_room_ends_when_its_time_is_over() {
    let house = House::new();
    let ttl = Some(Span(Duration::from_millis(300)));
    let mut brief = record(&house, "brief");
    brief.lifetime = Lifetime { ttl, ..Lifetime::default() };
    let mut idle = record(&house, "idle");
    idle.lifetime = Lifetime { idle: ttl, ..Lifetime::default() };
    for (record, why) in [(brief, Why::Expired), (idle, Why::Idle)] {
        let name = record.name.clone();
        let (client, shim) = shim(&house, record).await;
        client.unwrap();
        tokio::time::timeout(Duration::from_secs(5), shim).await.unwrap().unwrap();
        let found = journal(&house).find(&name).unwrap();
        assert!(matches!(&found.life, Life::Ended(end) if end.why == why), "{found:?}");
    }
}

#[tokio::test]
async fn a_shim_that_was_killed_leaves_a_room_that_is_lost_and_can_be_forgotten() {
    let house = House::new();
    let (client, shim) = shim(&house, record(&house, "r")).await;
    let client = client.unwrap();
    assert_eq!(heard(&client, "true").await.1, Ending::Exited { code: 0 });
    shim.abort();
    assert!(shim.await.unwrap_err().is_cancelled());
    let journal = journal(&house);
    let buried = journal.bury().unwrap();
    assert_eq!(buried.len(), 1);
    let found = journal.find("r").unwrap();
    assert!(matches!(&found.life, Life::Ended(end) if end.why == Why::Lost), "{found:?}");
    assert!(journal.bury().unwrap().is_empty());
}

#[test]
fn a_room_that_died_before_it_had_a_record_leaves_nothing() {
    let house = House::new();
    let journal = journal(&house);
    let rooms = house.path().join("state/rooms");
    for (room, file) in [("bare", None), ("cut", Some("room.json.new"))] {
        fs::create_dir_all(rooms.join(room)).unwrap();
        if let Some(file) = file {
            fs::write(rooms.join(room).join(file), "").unwrap();
        }
    }
    fs::create_dir_all(rooms.join("unreadable/1-kept")).unwrap();
    assert!(journal.bury().unwrap().is_empty());
    let mut left: Vec<_> =
        fs::read_dir(&rooms).unwrap().map(|it| it.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["unreadable"]);
    assert!(rooms.join("unreadable/1-kept").exists());
}

#[test]
fn a_record_that_cannot_be_read_is_moved_aside_and_never_deleted() {
    let house = House::new();
    let journal = journal(&house);
    let rooms = house.path().join("state/rooms");
    for (name, text) in [("future", r#"{"version":99}"#), ("garbage", "\0\0"), ("cut", "{")] {
        fs::create_dir_all(rooms.join(name)).unwrap();
        fs::write(rooms.join(name).join("room.json"), text).unwrap();
    }
    assert!(journal.list().unwrap().is_empty());
    let moved = journal.quarantine().unwrap();
    assert_eq!(moved.len(), 3);
    let text = moved.iter().map(ToString::to_string).collect::<String>();
    assert!(text.contains("it has the form 99, and this program knows 1"), "{text}");
    assert_eq!(fs::read_dir(rooms.join("unreadable")).unwrap().count(), 3);
    assert!(journal.quarantine().unwrap().is_empty());
}

/// Files take a file system longer than anything else that is done for a room.
#[test]
fn all_that_is_made_for_a_room_that_lives_is_its_record() {
    let house = House::new();
    let journal = journal(&house);
    let record = record(&house, "shop");
    let claim = journal.begin(&record).unwrap();
    let dir = claim.dir();
    let files = || fs::read_dir(&dir).unwrap().map(|it| it.unwrap().file_name());
    assert_eq!(journal.list().unwrap()[0].life, Life::Alive);
    drop(claim);
    let listed = journal.list().unwrap();
    assert!(matches!(listed[0].life, Life::Ended(_)), "{listed:?}");
    assert_eq!(files().collect::<Vec<_>>(), ["room.json"]);
    journal.forget(&record.id).unwrap();
    assert!(journal.list().unwrap().is_empty());
}

#[test]
fn nothing_is_left_of_a_room_that_could_not_get_its_name() {
    let house = House::new();
    let journal = journal(&house);
    let records = ["first", "second"].map(|name| record(&house, name));
    let series = journal.series(&records).unwrap();
    // Where its name would be, there is something else by now.
    fs::create_dir(house.path().join("state/names/second")).unwrap();
    let _first = series.begin(&records[0]).unwrap();
    series.begin(&records[1]).unwrap_err();
    let left: Vec<_> = journal.list().unwrap().into_iter().map(|it| it.record.id).collect();
    assert_eq!(left, [records[0].id.as_str()]);
}
