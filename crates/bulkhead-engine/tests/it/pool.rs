//! Rooms that were made ahead, and those who take them.

use std::{fs, os::unix::net::UnixStream, path::Path, time::Duration};

use bulkhead_engine::rooms::{
    Client, ClientError, Journal, JournalError, Life, Lifetime, Pooled, Record, Why,
    pool::{self, Key, Taken, parked},
};
use bulkhead_policy::Policy;
use bulkhead_spec::{Span, Spec};

use crate::{
    house::House,
    rooms::{heard, journal, shim},
};

/// The program that these shims are.
const ITSELF: &str = "/proc/self/exe";

fn wanted(name: &str) -> Record {
    Record::new("wanted".to_owned(), name.to_owned(), Spec::default(), Policy::default())
}

/// Parks a room; its shim is a task of this process.
async fn park(house: &House, id: &str) -> (Client, tokio::task::JoinHandle<()>) {
    let record = wanted("");
    let key = Key::of(&record, Path::new(ITSELF)).unwrap();
    let (client, task) = shim(house, parked(&record, id.to_owned(), "test", &key)).await;
    (client.unwrap(), task)
}

async fn take(journal: &Journal, name: &str) -> Result<Option<Record>, JournalError> {
    Ok(take_as(journal, wanted(name)).await?.map(|it| it.record))
}

async fn take_as(journal: &Journal, record: Record) -> Result<Option<Taken>, JournalError> {
    let named = |id: &str| Record { id: id.to_owned(), ..record.clone() };
    pool::take(journal, named, Path::new(ITSELF)).await
}

#[tokio::test]
async fn nobody_uses_a_room_that_nobody_has() {
    let house = House::new();
    let (client, task) = park(&house, "park-1").await;
    let refused = client.exec(crate::ask::sh("true").exec, None).await.unwrap_err();
    assert_eq!(refused.to_string(), "use a parked room: nobody has it yet");
    assert!(client.pause().await.is_err());
    assert!(journal(&house).list().unwrap().is_empty());
    assert_eq!(journal(&house).parked().unwrap().len(), 1);
    client.end(Duration::ZERO).await.unwrap();
    task.await.unwrap();
    assert!(journal(&house).parked().unwrap().is_empty());
}

#[tokio::test]
async fn a_taker_that_dies_in_the_middle_of_a_word_takes_nothing() {
    let house = House::new();
    let journal = journal(&house);
    let (client, task) = park(&house, "park-2").await;
    for said in [
        &b""[..],
        b"\x00",
        b"\x40\x00\x00\x00\x00{\"version\":1,\"request\":{\"do\":\"hand_out\"",
    ] {
        let mut half = UnixStream::connect(journal.socket("park-2")).unwrap();
        std::io::Write::write_all(&mut half, said).unwrap();
        drop(half);
        assert_eq!(journal.parked().unwrap().len(), 1);
    }
    let taken = take(&journal, "shop").await.unwrap().unwrap();
    assert_eq!((taken.id.as_str(), taken.name.as_str()), ("park-2", "shop"));
    assert!(take(&journal, "other").await.unwrap().is_none());
    assert!(journal.parked().unwrap().is_empty());
    let found = journal.find("shop").unwrap().record;
    assert!(matches!(found.pool, Pooled::Taken { .. }), "{found:?}");
    assert_eq!(heard(&client, "echo here").await.0, "here\n");
    client.end(Duration::ZERO).await.unwrap();
    task.await.unwrap();
}

#[tokio::test]
async fn a_name_that_is_taken_leaves_the_room_parked() {
    let house = House::new();
    let journal = journal(&house);
    let (first, one) = park(&house, "park-3").await;
    let (second, two) = park(&house, "park-4").await;
    take(&journal, "shop").await.unwrap().unwrap();
    let refused = take(&journal, "shop").await.unwrap_err();
    assert!(matches!(refused, JournalError::Taken(_)), "{refused}");
    let refused = take(&journal, "no/name").await.unwrap_err();
    assert!(matches!(refused, JournalError::Name(_)), "{refused}");
    assert_eq!(journal.parked().unwrap().len(), 1);
    assert_eq!(pool::drain(&journal).await.unwrap(), 1);
    for (client, task) in [(first, one), (second, two)] {
        client.end(Duration::ZERO).await.unwrap_or_default();
        task.await.unwrap();
    }
}

#[tokio::test]
async fn a_room_of_another_policy_or_slot_is_told_apart() {
    let house = House::new();
    let journal = journal(&house);
    let (_, task) = park(&house, "park-5").await;
    let record = wanted("");
    let key = Key::of(&record, Path::new(ITSELF)).unwrap();
    let mut stricter = record.clone();
    stricter.policy.ceiling.pids = Some(99);
    let other = Key::of(&stricter, Path::new(ITSELF)).unwrap();
    assert_ne!(key, other);
    assert_ne!(Key::of(&record, Path::new("/bin/true")), Some(key.clone()));
    assert_eq!(pool::drain_stale(&journal, "another slot", Some(&other)).await.unwrap(), 0);
    assert_eq!(pool::drain_stale(&journal, "test", Some(&key)).await.unwrap(), 0);
    assert_eq!(pool::drain_stale(&journal, "test", Some(&other)).await.unwrap(), 1);
    task.await.unwrap();
}

#[tokio::test]
async fn whoever_is_given_a_room_asks_first_where_it_was_given() {
    let house = House::new();
    let journal = journal(&house);
    let (client, task) = park(&house, "park-6").await;
    let taken = take_as(&journal, wanted("shop")).await.unwrap().unwrap();
    let (socket, aside) = (journal.socket("park-6"), house.path().join("aside"));
    fs::rename(&socket, &aside).unwrap();
    assert_eq!(heard(&taken.client, "echo here").await.0, "here\n");
    // That was the one that it had.
    let gone = taken.client.stats().await.unwrap_err();
    assert!(matches!(gone, ClientError::Gone(_)), "{gone}");
    fs::rename(&aside, &socket).unwrap();
    assert_eq!(heard(&taken.client, "echo there").await.0, "there\n");
    client.end(Duration::ZERO).await.unwrap();
    task.await.unwrap();
}

#[tokio::test]
async fn a_room_that_was_given_out_and_is_not_used_is_idle() {
    let house = House::new();
    let journal = journal(&house);
    let (_, task) = park(&house, "park-7").await;
    let idle = Some(Span(Duration::from_millis(200)));
    let lifetime = Lifetime { idle, ..Lifetime::default() };
    let taken =
        take_as(&journal, Record { lifetime, ..wanted("shop") }).await.unwrap().unwrap();
    tokio::time::timeout(Duration::from_secs(20), task).await.unwrap().unwrap();
    let found = journal.find("shop").unwrap();
    assert!(matches!(&found.life, Life::Ended(end) if end.why == Why::Idle), "{found:?}");
    let gone = taken.client.stats().await.unwrap_err();
    assert!(matches!(gone, ClientError::Gone(_)), "{gone}");
}

#[tokio::test]
async fn whoever_has_a_room_finds_the_one_that_came_after_it() {
    let house = House::new();
    let journal = journal(&house);
    let (client, task) = park(&house, "park-8").await;
    let taken = take_as(&journal, wanted("shop")).await.unwrap().unwrap();
    client.end(Duration::ZERO).await.unwrap();
    task.await.unwrap();
    journal.forget("park-8").unwrap();
    let again = Record { id: "park-8".to_owned(), ..wanted("shop") };
    let (second, task) = shim(&house, again).await;
    assert_eq!(heard(&taken.client, "echo again").await.0, "again\n");
    second.unwrap().end(Duration::ZERO).await.unwrap();
    task.await.unwrap();
}
