//! What goes wrong around a daemon: it dies, Bulkhead dies, everybody comes at once.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use bulkhead_backends::Backend;
use bulkhead_spec::Ending;
use bulkhead_testbed::{Dockerd, IMAGE, Setup};
use libtest_mimic::{Failed, Trial};

use crate::{errand::Errand, makers::Maker, nothing_survives, room::Room};

/// How soon the death of a daemon must be told.
const SECONDS: Duration = Duration::from_secs(10);
const WAIT: &str = "say('ready')\nsignal.alarm(60)\nsignal.pause()";

/// The drills on `dockerd`, which others use as well, and on daemons of their own.
pub(crate) fn trials(dockerd: &Arc<Dockerd>) -> Vec<Trial> {
    let shared = |name: &str, drill: fn(&Dockerd) -> Result<(), Failed>| {
        let dockerd = Arc::clone(dockerd);
        Trial::test(format!("docker-runc::drill::{name}"), move || drill(&dockerd))
    };
    vec![
        shared("a_killed_maker_is_swept_and_a_strangers_container_stays", sweeps_only_its_own),
        shared("fifty_sandboxes_at_once", fifty_at_once),
        Trial::test("docker-runc::drill::a_daemon_that_dies_is_told_within_seconds", dies),
    ]
}

fn maker(dockerd: &Dockerd) -> Maker {
    Maker::Daemon { address: dockerd.address().to_owned(), runtime: "runc".to_owned() }
}

fn dies() -> Result<(), Failed> {
    let mut dockerd = Dockerd::start(Setup::new("tests-of-a-crash"))?;
    dockerd.furnish()?;
    let kept = tempfile::tempdir()?;
    let backend = maker(&dockerd).make(kept.path())?;
    let room = Room::new(&*backend)?;
    let mut inside = room.enter(WAIT, &[])?;
    inside.hear("ready")?;
    dockerd.crash()?;
    let died = Instant::now();
    let told = inside.wait();
    let took = died.elapsed();
    if SECONDS < took {
        return Err(format!("it took {took:?} to tell").into());
    }
    match told {
        Ok(Ending::Lost) | Err(_) => {}
        Ok(ending) => return Err(format!("the program seems to have ended: {ending:?}").into()),
    }
    inside.abandon();
    if room.build().is_ok() || SECONDS < died.elapsed() {
        return Err("without a daemon, a sandbox is built or hangs".into());
    }
    dockerd.restart()?;
    let next = maker(&dockerd).make(kept.path())?;
    let again = Room::new(&*next)?;
    again.sweep()?;
    again.build()?;
    let left = dockerd.docker(&["ps", "--all", "--quiet"])?;
    if left.trim().is_empty() {
        Ok(())
    } else {
        Err(format!("containers are left: {left}").into())
    }
}

fn sweeps_only_its_own(dockerd: &Dockerd) -> Result<(), Failed> {
    let [kept, workspace] = [tempfile::tempdir()?, tempfile::tempdir()?];
    let (places, dir) = (kept.path().canonicalize()?, workspace.path().canonicalize()?);
    // A stranger's, with a label like ours.
    let name = format!("stranger-{}", std::process::id());
    dockerd.docker(&[
        "create",
        "--name",
        &name,
        "--label",
        "bulkhead.instance=other",
        IMAGE,
        "true",
    ])?;
    let swept = killed_then_swept(dockerd, &places, &dir);
    let stranger = dockerd.docker(&["inspect", "--format", "{{.Name}}", &name]);
    dockerd.docker(&["rm", "--force", &name])?;
    let (id, before, after) = swept?;
    if !before.contains(&id) {
        return Err(format!("the maker left no container: {before}").into());
    }
    if after.contains(&id) {
        return Err(format!("its container is left: {after}").into());
    }
    stranger.map(drop).map_err(|_| "the container of a stranger is gone".into())
}

/// The name of a sandbox whose maker is killed, and all containers before and after a sweep.
fn killed_then_swept(
    dockerd: &Dockerd,
    places: &Path,
    workspace: &Path,
) -> Result<(String, String, String), Failed> {
    let maker = maker(dockerd);
    let errand = Errand::Hold {
        maker: maker.clone(),
        workspace: workspace.to_owned(),
        places: places.to_owned(),
    };
    let id = nothing_survives::killed(&errand)?;
    let names = ["ps", "--all", "--format", "{{.Names}}"];
    let before = dockerd.docker(&names)?;
    let next = maker.make(places)?;
    Room::at(&*next, workspace.to_owned(), places.to_owned())?.sweep()?;
    Ok((id, before, dockerd.docker(&names)?))
}

fn fifty_at_once(dockerd: &Dockerd) -> Result<(), Failed> {
    let kept = tempfile::tempdir()?;
    let backend = maker(dockerd).make(kept.path())?;
    let backend: &dyn Backend = &*backend;
    let each = || -> Result<(), Failed> {
        let room = Room::new(backend)?;
        room.build()
    };
    let failed: Vec<Failed> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..50).map(|_| scope.spawn(each)).collect();
        let ended =
            all.into_iter().map(|it| it.join().unwrap_or(Err("a thread panicked".into())));
        ended.filter_map(Result::err).collect()
    });
    let first = failed.first().and_then(Failed::message);
    first.map_or(Ok(()), |why| Err(format!("{} of 50 failed: {why}", failed.len()).into()))
}
