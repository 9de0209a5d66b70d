//! ssh, which knows of no proxy: it is caught on its way and judged by the same rules.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::fd::OwnedFd,
    path::Path,
    thread,
};

use super::{Ask, House, World, command, done, house_with, out};

/// A server for ssh. The test listens itself, so that nobody else has the port meanwhile; each
/// connection is a process of sshd.
pub(super) struct Sshd {
    pub(super) port: u16,
}

impl Sshd {
    /// Lets whoever has the key in `dir` in, as whoever runs the test.
    pub(super) fn start(dir: &Path) -> Self {
        if rustix::process::geteuid().is_root() {
            // What the system makes before its own server starts.
            fs::create_dir_all("/run/sshd").unwrap();
        }
        for name in ["host", "key"] {
            let make = ["-q", "-t", "ed25519", "-N", "", "-f", name];
            done(command("ssh-keygen", dir).args(make));
        }
        let config = format!(
            "HostKey {0}/host\nAuthorizedKeysFile {0}/key.pub\nStrictModes no\nUsePAM no\n\
             PidFile none\nPermitRootLogin prohibit-password\n",
            dir.display()
        );
        fs::write(dir.join("config"), config).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let dir = dir.to_owned();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let dir = dir.clone();
                thread::spawn(move || serve(stream, &dir));
            }
        });
        Self { port }
    }
}

fn serve(stream: TcpStream, dir: &Path) {
    let mut server = command("/usr/sbin/sshd", dir);
    server.args(["-i", "-e", "-f"]).arg(dir.join("config"));
    server.stdin(OwnedFd::from(stream.try_clone().unwrap())).stdout(OwnedFd::from(stream));
    done(&mut server);
}

#[tokio::test]
async fn git_gets_out_over_ssh_and_only_where_it_may() {
    let dir = tempfile::tempdir().unwrap();
    let sshd = Sshd::start(dir.path());
    let (house, world) = house_with(Some(sshd.port));
    clones(&house, &world, dir.path(), |ask| ask).await;
}

/// Clones by a key in `dir`.
pub(super) async fn clones(
    house: &House,
    world: &World,
    dir: &Path,
    change: impl FnOnce(Ask) -> Ask,
) {
    fs::copy(dir.join("key"), house.workspace().join("key")).unwrap();
    let user = String::from_utf8(command("id", dir).arg("-un").output().unwrap().stdout);
    let script = format!(
        "chmod 600 key
         rm -rf clone
         export GIT_SSH_COMMAND=\"ssh -F none -i $PWD/key -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o ConnectTimeout=120\"
         git clone -q {user}@git.example.com:{repo} clone; git -C clone log -1 --format=%s
         git clone -q {user}@other.example.com:{repo} other 2>/dev/null || echo refused",
        user = user.unwrap().trim(),
        repo = world.dir.join("files/repo.git").display()
    );
    let ask = change(out(house, &["git.example.com:22"], &script));
    assert_eq!(house.says(ask).await, "from the world\nrefused\n");
}
