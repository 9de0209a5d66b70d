//! Links where the plan expects a directory or a file.
//!
//! Backend `none` knows no other root and no mounts, so each attack here first shows that what it
//! builds can be built without the link.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use bulkhead_backends::Backend;
use bulkhead_spec::{Access, GuestPath, Mount, Root};
use libtest_mimic::Failed;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::SECRET;
use crate::{
    attack::Verdict,
    room::{Room, host_path},
};

/// A root file system from somewhere, whose links lead where the sandbox mounts its own things
/// (CVE-2025-31133, CVE-2026-55686).
pub(super) fn a_root_with_a_link_for_a_directory_is_refused(
    backend: &dyn Backend,
) -> Result<Verdict, Failed> {
    let mut room = Room::new(backend)?;
    let image = room.outside().join("image");
    let elsewhere = room.outside().join("elsewhere");
    fs::create_dir(&elsewhere)?;
    make_root(&image)?;
    room.spec.root = Root::Directory(host_path(&image)?);
    room.share(Path::new("/usr"), Access::ReadOnly)?;
    if room.attack("held()", &[])? != Verdict::Held {
        return Err("a root without such links does not work either".into());
    }
    for name in ["proc", "dev", "tmp", "run", "var", "home"] {
        let path = image.join(name);
        fs::remove_dir_all(&path).unwrap_or_default();
        symlink(&elsewhere, &path)?;
        if room.build().is_ok() {
            return Ok(Verdict::Broken(format!("/{name} was a link and was followed")));
        }
        fs::remove_file(&path)?;
    }
    let made = fs::read_dir(&elsewhere)?.next().is_some();
    Ok(Verdict::broken_if(made.then(|| "something was made where the link leads".to_owned())))
}

fn make_root(root: &Path) -> Result<(), Failed> {
    for name in ["usr", "proc", "dev", "tmp"] {
        fs::create_dir_all(root.join(name))?;
    }
    for name in ["bin", "lib", "lib64"] {
        symlink(format!("usr/{name}"), root.join(name))?;
    }
    Ok(())
}

pub(super) fn a_shared_link_is_refused(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let mut room = Room::new(backend)?;
    let (real, link) = (room.outside().join("real"), room.outside().join("link"));
    fs::create_dir(&real)?;
    symlink(&real, &link)?;
    let built = |room: &mut Room<'_>, from: PathBuf| {
        let to = GuestPath::try_from(PathBuf::from("/opt/shared"))?;
        let from = from.try_into()?;
        room.spec.mounts = vec![Mount { from, to, access: Access::ReadOnly }];
        Ok::<_, Failed>(room.build())
    };
    built(&mut room, real)??;
    let followed = built(&mut room, link)?.is_ok();
    Ok(Verdict::broken_if(followed.then(|| "the link was followed".to_owned())))
}

/// A directory is exchanged for a link, again and again, while sandboxes are built (CVE-2018-15664).
pub(super) fn a_swapped_share_shows_nothing_else(
    backend: &dyn Backend,
) -> Result<Verdict, Failed> {
    let mut room = Room::new(backend)?;
    let harmless = room.outside().join("harmless");
    let (here, spare) = (room.outside().join("shared"), room.outside().join("spare"));
    let secrets = room.outside().join("secrets");
    for dir in [&here, &secrets, &harmless] {
        fs::create_dir(dir)?;
    }
    fs::write(secrets.join("secret"), SECRET)?;
    symlink(&secrets, &spare)?;
    let to = GuestPath::try_from(PathBuf::from("/opt/shared"))?;
    let from = here.clone().try_into()?;
    room.spec.mounts = vec![Mount { from, to, access: Access::ReadOnly }];

    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            let mut swaps = 0_u64;
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, &here, CWD, &spare, RenameFlags::EXCHANGE)?;
                swaps += 1;
                // A directory for some time, so that sandboxes can be built; a link for less. Each
                // time another, so that every step of building is met.
                let most = if swaps.is_multiple_of(2) { 3000 } else { 300 };
                let until = Instant::now() + Duration::from_micros(swaps * 37 % most);
                while Instant::now() < until {
                    std::thread::yield_now();
                }
            }
            Ok::<_, rustix::io::Errno>(swaps)
        });
        let verdict = race(&room);
        done.store(true, Ordering::Relaxed);
        let swaps = swapper.join().map_err(|_| "the swapper panicked")??;
        if swaps < 10 {
            return Err(format!("swapped only {swaps} times").into());
        }
        verdict
    })
}

/// Builds sandboxes until enough were built and enough were refused to call it a race.
fn race(room: &Room<'_>) -> Result<Verdict, Failed> {
    let (mut built, mut refused) = (0, 0);
    for _ in 0..400 {
        if 10 <= built && 10 <= refused {
            return Ok(Verdict::Held);
        }
        match room.runs(&["ls", "-A", "/opt/shared"]) {
            Ok(said) if said.stdout.is_empty() => built += 1,
            Ok(said) => return Ok(Verdict::Broken(said.stdout)),
            Err(_) => refused += 1,
        }
    }
    Err(format!("no race: {built} were built and {refused} refused").into())
}
