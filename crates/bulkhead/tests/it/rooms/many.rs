//! One room among many.

use std::{mem::MaybeUninit, os::fd::OwnedFd};

use rustix::{
    fs::inotify::{self, CreateFlags, Reader, WatchFlags},
    io::Errno,
};

use super::Rooms;

/// Says whether somebody looked at other rooms than the one that was meant.
struct Others {
    watch: OwnedFd,
    /// The list of all.
    list: i32,
}

impl Others {
    /// Watches what is written down of the rooms `names`, and the list of all of them.
    fn watched(rooms: &Rooms, names: &[&str]) -> Self {
        let watch = inotify::init(CreateFlags::NONBLOCK).unwrap();
        let journal = rooms.host.state().join("rooms");
        let listed = rooms.host.json(&["ls", "--all", "--json"]);
        let listed = listed["rooms"].as_array().unwrap();
        for name in names {
            let room = listed.iter().find(|it| it["name"] == *name).unwrap();
            let dir = journal.join(room["id"].as_str().unwrap());
            inotify::add_watch(&watch, dir, WatchFlags::OPEN).unwrap();
        }
        // Whoever lists a directory reads it.
        let flags = WatchFlags::ACCESS | WatchFlags::ONLYDIR;
        let list = inotify::add_watch(&watch, journal, flags).unwrap();
        Self { watch, list }
    }

    /// What was looked at since the last time.
    fn seen(&self) -> Vec<String> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.watch, &mut buffer);
        let mut seen = Vec::new();
        loop {
            match reader.next() {
                // Of what is in the list, only others are watched.
                Ok(event) if event.wd() == self.list && event.file_name().is_some() => {}
                Ok(event) => {
                    let name = event.file_name().map(|it| it.to_string_lossy().into_owned());
                    seen.push(name.unwrap_or_else(|| "a directory".to_owned()));
                }
                Err(Errno::AGAIN) => return seen,
                Err(errno) => panic!("{errno}"),
            }
        }
    }
}

#[test]
fn whoever_wants_one_room_looks_at_no_other() {
    let rooms = Rooms::with("shop");
    let id = rooms.host.json(&["inspect", "shop"])["room"]["id"].as_str().unwrap().to_owned();
    rooms.fine(&["create", "--name", "living"]);
    rooms.fine(&["create", "--name", "ended"]);
    rooms.fine(&["kill", "ended"]);
    // Whether somebody still needs what a checkpoint has is nothing that this room could change.
    rooms.fine(&["checkpoint", "create", "living", "kept"]);
    let others = Others::watched(&rooms, &["living", "ended"]);
    let steps: [&[&str]; 17] = [
        &["exec", "shop", "--", "true"],
        &["exec", &id, "--", "true"],
        &["inspect", "shop"],
        &["stats", "shop"],
        &["logs", "shop"],
        &["pause", "shop"],
        &["resume", "shop"],
        &["update", "shop", "-e", "A=b"],
        &["cp", "shop:/etc/passwd", "-"],
        &["kill", "shop"],
        &["wait", "shop"],
        &["inspect", "shop"],
        &["rm", "shop"],
        &["create", "--name", "shop"],
        &["rm", "--force", "shop"],
        &["create", "--name", "shop"],
        &["fork", "shop", "-n", "2"],
    ];
    for step in steps {
        rooms.fine(step);
        assert_eq!(others.seen(), [] as [String; 0], "{step:?}");
    }
    // The watch does see whoever looks at all of them.
    rooms.fine(&["ls"]);
    let seen = others.seen();
    assert!(["a directory", "room.json"].iter().all(|it| seen.iter().any(|name| name == it)));
}
