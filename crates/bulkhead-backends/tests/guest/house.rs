//! Starts guests, and says what programs in them say.

use std::{os::fd::OwnedFd, path::Path, process::Stdio, time::Duration};

use bulkhead_backends::{
    Streams,
    guest::{After, Ended, Link, Order, Program, Status, pair},
};
use bulkhead_spec::Stdin;
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, Command},
    time::timeout,
};

/// How a guest is talked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Socket,
    Pipes,
}

/// Both of them.
pub(crate) const BOTH: [Over; 2] = [Over::Socket, Over::Pipes];

/// A guest, which ends with this, and the link to it.
pub(crate) struct House {
    pub(crate) link: Link,
    pub(crate) child: Child,
}

/// The guest, as the build made it.
const PROGRAM: &str = concat!(env!("OUT_DIR"), "/bulkhead-guest");

impl House {
    #[expect(clippy::disallowed_methods, reason = "the guest is what starts programs")]
    pub(crate) fn build(over: Over) -> Self {
        match over {
            Over::Socket => {
                let (ours, theirs) = pair().unwrap();
                // Its control stream is descriptor 3.
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", "exec \"$0\" 3<&0 0</dev/null"]).arg(PROGRAM);
                shell.stdin::<OwnedFd>(theirs).kill_on_drop(true);
                let child = shell.spawn().unwrap();
                Self { link: Link::over_socket(ours).unwrap(), child }
            }
            Over::Pipes => Self::over_pipes(Command::new(PROGRAM)),
        }
    }

    /// A guest that sees a disk of one mebibyte at `dir`.
    #[expect(clippy::disallowed_methods, reason = "the guest is what starts programs")]
    pub(crate) fn with_small_disk(dir: &Path) -> Self {
        let mut unshare = Command::new("unshare");
        let script = "mount -t tmpfs -o size=1m none \"$1\" && exec \"$0\" --stdio";
        unshare.args(["-rm", "sh", "-c", script]).arg(PROGRAM).arg(dir);
        Self::over_pipes(unshare)
    }

    fn over_pipes(mut guest: Command) -> Self {
        guest.arg("--stdio").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = guest.kill_on_drop(true).spawn().unwrap();
        let (output, input) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        Self { link: Link::over_stream(output, input), child }
    }

    pub(crate) async fn start(&self, order: Order) -> Program {
        soon(self.link.start(order)).await.unwrap()
    }

    /// What a shell says and how it ends.
    pub(crate) async fn say(&self, script: &str) -> (String, String, Status) {
        let mut program = self.start(shell(script)).await;
        let Streams { mut stdout, stderr, .. } = program.take_streams().unwrap();
        let mut stderr = stderr.unwrap();
        let (mut said, mut complained) = (String::new(), String::new());
        let all = async {
            tokio::try_join!(
                stdout.read_to_string(&mut said),
                stderr.read_to_string(&mut complained)
            )
        };
        soon(all).await.unwrap();
        (said, complained, end(&mut program).await.status)
    }
}

/// A shell that does `script` and reads nothing.
pub(crate) fn shell(script: &str) -> Order {
    Order {
        argv: ["sh", "-c", script].map(|it| it.as_bytes().to_vec()).into(),
        env: vec![b"PATH=/usr/bin:/bin".to_vec(), b"NAME=value".to_vec()],
        dir: b"/".to_vec(),
        stdin: Stdin::Empty,
        terminal: None,
        after: After::Stay,
    }
}

/// Like [`shell`], with an input.
pub(crate) fn reading_shell(script: &str) -> Order {
    Order { stdin: Stdin::Piped, ..shell(script) }
}

pub(crate) async fn end(program: &mut Program) -> Ended {
    soon(program.wait()).await.unwrap().unwrap()
}

/// What must not take long.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), future).await.expect("it takes too long")
}
