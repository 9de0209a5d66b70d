//! The state on disk is not what a program expects.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;

use crate::drill::site::{Site, in_time, must, refused, until};
use crate::drill::{Drill, Seen};
use crate::processes::{self, Processes};
use crate::programs;
use crate::trouble::{OrTrouble, Trouble};

const SOON: Duration = Duration::from_secs(5);

pub(super) const REBOOT: Drill = Drill {
    name: "R9",
    what: "a reboot: every process and the runtime directory gone",
    run: reboot,
};

pub(super) const SPOILT: Drill =
    Drill { name: "R16", what: "records cut short, garbled, from the future", run: spoilt };

pub(super) const TWO_AT_ONCE: Drill =
    Drill { name: "R17", what: "two of everything on one state directory", run: two_at_once };

pub(super) const UPGRADE: Drill =
    Drill { name: "R18", what: "a new program under living rooms", run: upgrade };

fn reboot(site: &Site) -> Result<Seen, Trouble> {
    site.create("room", 5)?;
    let rooms = site.rooms()?;
    let processes = Processes::now()?;
    let mut all = Vec::new();
    for room in &rooms {
        all.extend(processes.tree_of(site.shim(room)?).iter().map(|it| it.identity));
    }
    for process in &all {
        // One may have gone with another.
        drop(processes::signal(process.pid, Signal::KILL));
    }
    until("all processes are gone", SOON, || {
        let alive = Processes::now()?.alive();
        Ok(all.iter().all(|it| !alive.contains(it)))
    })?;
    let runtime = site.runtime();
    fs::remove_dir_all(&runtime)
        .or_trouble(|| format!("could not remove `{}`", runtime.display()))?;
    let lost = site.rooms()?.iter().filter(|it| !it.alive).count();
    must(lost == rooms.len(), || format!("{lost} of {} rooms are told as lost", rooms.len()))?;
    site.create("room", 5)?;
    site.say(&["exec", "room-0", "--", "true"])?;
    site.run_once()?;
    Ok(Seen::Held("all told as lost, and their names free again".to_owned()))
}

fn spoilt(site: &Site) -> Result<Seen, Trouble> {
    site.create("room", 1)?;
    let whole = site.journal().join(&site.room("room-0")?.id).join("room.json");
    let whole =
        fs::read(&whole).or_trouble(|| format!("could not read `{}`", whole.display()))?;
    let cut = whole.get(..whole.len() / 2).unwrap_or_default();
    let kinds =
        [("cut", cut), ("garbled", b"\0\xff{".as_slice()), ("future", br#"{"version":99}"#)];
    for (name, bytes) in kinds {
        let dir = site.journal().join(name);
        fs::create_dir(&dir)
            .and_then(|()| fs::write(dir.join("room.json"), bytes))
            .or_trouble(|| format!("could not write `{}`", dir.display()))?;
    }
    let listed = site.rooms()?;
    must(listed.len() == 1, || format!("the journal lists {listed:?}"))?;
    site.say(&["exec", "room-0", "--", "true"])?;
    let aside = site.journal().join("unreadable");
    let kept = fs::read_dir(&aside).into_iter().flatten().count();
    must(kept == kinds.len(), || format!("{kept} of {} records were kept", kinds.len()))?;
    fs::remove_dir_all(&aside).or_trouble(|| "could not tidy up".to_owned())?;
    Ok(Seen::Held("set aside whole, told, and the other room goes on".to_owned()))
}

fn two_at_once(site: &Site) -> Result<Seen, Trouble> {
    let start = |args: &[&str]| {
        let mut command = site.command(args);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().or_trouble(|| "could not start a command".to_owned())
    };
    let mut both = Vec::new();
    for _ in 0..8 {
        both.push(start(&["create", "--name", "same"])?);
    }
    let mut made = 0;
    for mut child in both {
        made += u32::from(in_time(&mut child)?.success());
    }
    must(made == 1, || format!("{made} rooms of one name were made"))?;
    // Two that end and forget the same room: both are content or one is told that it is gone.
    let mut both = [start(&["rm", "--force", "same"])?, start(&["rm", "--force", "same"])?];
    let mut done = 0;
    for child in &mut both {
        done += u32::from(in_time(child)?.success());
    }
    must(done >= 1, || "nobody could remove the room".to_owned())?;

    let mut server = start(&["serve", "--quiet"])?;
    let socket = site.runtime().join("bulkhead.sock");
    let answers =
        until("the server answers", SOON, || Ok(UnixStream::connect(&socket).is_ok()));
    let refused = answers.and_then(|_| refused(&mut site.command(&["serve"])));
    site.stop(&mut server)?;
    let refused = programs::last_line(&refused?);
    Ok(Seen::Held(format!("one of eight creates won; a second server: {refused}")))
}

fn upgrade(site: &Site) -> Result<Seen, Trouble> {
    let bin = site.dir("bin")?;
    let place = bin.join("bulkhead");
    let copied = |to: &std::path::Path| {
        fs::copy(site.bulkhead(), to)
            .or_trouble(|| format!("could not copy to `{}`", to.display()))
    };
    copied(&place)?;
    let mut create = programs::command(&place);
    create.args(["create", "--name", "old"]);
    site.dress(&mut create);
    programs::output(&mut create)?;
    let new = place.with_extension("new");
    copied(&new)?;
    fs::rename(&new, &place).or_trouble(|| "could not replace the program".to_owned())?;
    let mut exec = programs::command(&place);
    exec.args(["exec", "old", "--", "echo", "here"]);
    site.dress(&mut exec);
    let said = programs::output(&mut exec)?;
    must(said == "here\n", || format!("the room said `{said}`"))?;
    let answer = from_the_future(site)?;
    must(answer.contains("speaks"), || {
        format!("a client from the future was told `{answer}`")
    })?;
    site.say(&["exec", "old", "--", "true"])?;
    site.say(&["rm", "--force", "old"])?;
    fs::remove_dir_all(&bin).or_trouble(|| "could not tidy up".to_owned())?;
    Ok(Seen::Held("served by the new program; one of another protocol is told so".to_owned()))
}

/// What a shim says to a client that speaks a later protocol.
fn from_the_future(site: &Site) -> Result<String, Trouble> {
    let failed = || "could not talk to the shim".to_owned();
    let socket = site.runtime().join("rooms").join(format!("{}.sock", site.room("old")?.id));
    let mut stream = UnixStream::connect(socket).or_trouble(failed)?;
    stream.set_read_timeout(Some(SOON)).or_trouble(failed)?;
    let opening = br#"{"version":99,"request":"info"}"#;
    let length = u32::try_from(opening.len()).unwrap_or_default().to_le_bytes();
    let frame = [length.as_slice(), &[0], opening].concat();
    stream.write_all(&frame).or_trouble(failed)?;
    let mut said = Vec::new();
    drop(stream.read_to_end(&mut said));
    Ok(String::from_utf8_lossy(&said).into_owned())
}
