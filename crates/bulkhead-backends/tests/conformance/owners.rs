//! Whose the files are that are made in a workspace: its owner's, whoever the daemon says programs
//! are.

use std::{fs, os::unix::fs::MetadataExt as _};

use bulkhead_backends::{
    Backend,
    container::{Facts, Identity},
};
use bulkhead_testbed::{Dockerd, Setup, remapped};
use libtest_mimic::{Failed, Trial};

use crate::{claims::required, errand::Errand, makers::Maker, ordinary_user, room::Room};

/// Makes files of each kind in a workspace and looks at them from outside.
pub(crate) fn check(backend: &dyn Backend) -> Result<(), Failed> {
    let room = Room::new(backend)?;
    let script = r#"
open("file", "w").write("made")
os.mkdir("dir")
os.symlink("file", "link")
os.rename("file", "dir/file")
held()
"#;
    room.attack(script, &[])?;
    let owner = fs::metadata(room.workspace())?;
    for name in ["dir", "dir/file", "link"] {
        let about = fs::symlink_metadata(room.workspace().join(name))?;
        if (about.uid(), about.gid()) != (owner.uid(), owner.gid()) {
            let (uid, gid) = (about.uid(), about.gid());
            return Err(format!("`{name}` belongs to {uid}:{gid}").into());
        }
    }
    Ok(())
}

/// For a daemon whose users are those of the host: as root, and as somebody else.
pub(crate) fn trials(dockerd: &Dockerd) -> Vec<Trial> {
    let maker =
        Maker::Daemon { address: dockerd.address().to_owned(), runtime: "runc".to_owned() };
    let (root, user) = (maker.clone(), maker);
    let opened = dockerd.open_to_all();
    let mut trials = vec![
        Trial::test("docker-runc::owners::of_root", move || of_root(&root)),
        Trial::test("docker-runc::owners::of_an_ordinary_user", move || {
            opened?;
            ordinary_user::owns(&user)
        }),
    ];
    trials.push(match remapped::is_possible() {
        Ok(()) => Trial::test("docker-remap::owners::of_root_and_of_an_ordinary_user", remap),
        Err(reason) => {
            let why = reason.clone();
            let trial = Trial::test("docker-remap::is_available", || Err(why.into()));
            trial.with_kind(reason).with_ignored_flag(!required("docker-remap"))
        }
    });
    trials
}

fn of_root(maker: &Maker) -> Result<(), Failed> {
    let kept = tempfile::tempdir()?;
    check(&*maker.make(kept.path())?)
}

/// The host knows no user that a daemon could remap to, so all of it happens where there is one.
fn remap() -> Result<(), Failed> {
    let said = remapped::run_self(&Errand::Remap.to_words())?;
    if said.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned().into())
}

/// What is done there.
pub(crate) fn behind_a_remapping_daemon() -> Result<(), Failed> {
    let setup = Setup::new("tests-of-a-remap");
    let more = vec!["--userns-remap".to_owned(), remapped::NAME.to_owned()];
    let dockerd = Dockerd::start(Setup { more, ..setup })?;
    dockerd.furnish()?;
    dockerd.open_to_all()?;
    let maker =
        Maker::Daemon { address: dockerd.address().to_owned(), runtime: "runc".to_owned() };
    let facts: Facts = crate::makers::facts(dockerd.address())?;
    let root = Some((remapped::FIRST, remapped::FIRST));
    if facts.identity != (Identity::Remapped { root }) {
        return Err(format!("the daemon does not remap: {:?}", facts.identity).into());
    }
    of_root(&maker)?;
    ordinary_user::owns(&maker)
}
