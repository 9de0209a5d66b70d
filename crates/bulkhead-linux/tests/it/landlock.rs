//! Landlock alone: the same user, the same mounts, and files of that user.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;

use bulkhead_linux::landlock::version;

use super::role::play;
use super::walls::walls;

/// Raises the walls around `inside`, and reports what can be done there and elsewhere.
pub(super) fn write_behind_walls() -> String {
    let here = std::env::current_dir().unwrap();
    let before = format!("before\n{}", tried(&here, "b"));
    let inside = here.join("inside");
    walls(&[inside.to_str().unwrap(), here.join("listed").to_str().unwrap()]).raise().unwrap();
    format!("{before}behind\n{}", tried(&here, "a"))
}

/// What comes of each attempt, a line each; `tag` makes new names.
fn tried(here: &Path, tag: &str) -> String {
    let inside = |name: &str| here.join("inside").join(format!("{name}-{tag}"));
    let outside = |name: &str| here.join("outside").join(format!("{name}-{tag}"));
    let append = |path: &Path| OpenOptions::new().append(true).open(path).map(drop);
    let parent = rustix::process::getppid().unwrap();
    let abstract_name = SocketAddr::from_abstract_name(name_of(here)).unwrap();
    [
        ("make inside", File::create(inside("file")).map(drop)),
        ("make a directory inside", fs::create_dir(inside("directory"))),
        ("write a listed file", append(&here.join("listed"))),
        ("write to /dev/null", append(Path::new("/dev/null"))),
        ("read outside", fs::read(outside("old")).map(drop)),
        ("write outside", append(&outside("old"))),
        ("truncate outside", File::create(outside("old")).map(drop)),
        ("make outside", File::create(outside("new")).map(drop)),
        ("make a directory outside", fs::create_dir(outside("directory"))),
        ("move out", fs::rename(inside("file"), outside("moved"))),
        ("remove outside", fs::remove_file(outside("old"))),
        ("reach a socket outside", UnixStream::connect_addr(&abstract_name).map(drop)),
        (
            "signal a process outside",
            rustix::process::test_kill_process(parent).map_err(Into::into),
        ),
    ]
    .map(|(attempt, came)| format!("{attempt}: {}\n", word(&came)))
    .concat()
}

fn word(came: &io::Result<()>) -> String {
    match came {
        Ok(()) => "done".to_owned(),
        Err(error) => format!("{:?}", error.kind()),
    }
}

/// A socket name that no other run has.
fn name_of(here: &Path) -> Vec<u8> {
    format!("bulkhead-test-{}", here.display()).into_bytes()
}

#[test]
fn only_what_is_listed_can_be_changed() {
    assert!(version() >= 6, "this kernel's Landlock cannot hold what is tried here");
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().canonicalize().unwrap();
    for name in ["inside", "outside"] {
        fs::create_dir(here.join(name)).unwrap();
    }
    for name in ["listed", "outside/old-a", "outside/old-b"] {
        fs::write(here.join(name), "old").unwrap();
    }
    let address = SocketAddr::from_abstract_name(name_of(&here)).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();

    let free = "make inside: done
make a directory inside: done
write a listed file: done
write to /dev/null: done
read outside: done
";
    let expected = format!(
        "before
{free}write outside: done
truncate outside: done
make outside: done
make a directory outside: done
move out: done
remove outside: done
reach a socket outside: done
signal a process outside: done
behind
{free}write outside: PermissionDenied
truncate outside: PermissionDenied
make outside: PermissionDenied
make a directory outside: PermissionDenied
move out: PermissionDenied
remove outside: PermissionDenied
reach a socket outside: PermissionDenied
signal a process outside: PermissionDenied
"
    );
    assert_eq!(play("write behind walls", &here), expected);
    assert_eq!(fs::read_to_string(here.join("outside/old-a")).unwrap(), "old");
}
