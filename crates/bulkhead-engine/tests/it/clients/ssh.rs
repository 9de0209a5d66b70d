//! ssh, which knows of no proxy: it is caught on its way and judged by the same rules.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::Path,
    process::Child,
    thread,
    time::{Duration, Instant},
};

use super::{command, done, house_with, out};

/// A server for ssh on a port of its own, ended with its test.
struct Sshd {
    process: Child,
    port: u16,
}

impl Sshd {
    /// Lets whoever has the key in `dir` in, as whoever runs the test.
    fn start(dir: &Path) -> Self {
        if rustix::process::geteuid().is_root() {
            // What the system makes before its own server starts.
            fs::create_dir_all("/run/sshd").unwrap();
        }
        for name in ["host", "key"] {
            let make = ["-q", "-t", "ed25519", "-N", "", "-f", name];
            done(command("ssh-keygen", dir).args(make));
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {0}/host\nAuthorizedKeysFile {0}/key.pub\n\
             StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin prohibit-password\n",
            dir.display()
        );
        fs::write(dir.join("config"), config).unwrap();
        let mut server = command("/usr/sbin/sshd", dir);
        let process = server.args(["-D", "-e", "-f"]).arg(dir.join("config")).spawn().unwrap();
        let sshd = Self { process, port };
        let late = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < late, "sshd does not answer");
            thread::sleep(Duration::from_millis(20));
        }
        sshd
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.process.kill().unwrap_or_default();
        self.process.wait().map(drop).unwrap_or_default();
    }
}

#[tokio::test]
async fn git_gets_out_over_ssh_and_only_where_it_may() {
    let dir = tempfile::tempdir().unwrap();
    let sshd = Sshd::start(dir.path());
    let (house, world) = house_with(Some(sshd.port));
    fs::copy(dir.path().join("key"), house.workspace().join("key")).unwrap();
    let user = String::from_utf8(command("id", dir.path()).arg("-un").output().unwrap().stdout);
    let script = format!(
        "chmod 600 key
         export GIT_SSH_COMMAND=\"ssh -F none -i $PWD/key -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o ConnectTimeout=20\"
         git clone -q {user}@git.example.com:{repo} clone; git -C clone log -1 --format=%s
         git clone -q {user}@other.example.com:{repo} other 2>/dev/null || echo refused",
        user = user.unwrap().trim(),
        repo = world.dir.join("files/repo.git").display()
    );
    let ask = out(&house, &["git.example.com:22"], &script);
    assert_eq!(house.says(ask).await, "from the world\nrefused\n");
}
