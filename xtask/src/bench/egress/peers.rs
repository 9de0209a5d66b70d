//! What else carries connections: relays that look at nothing, and proxies that people use.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::client::Way;
use super::world::World;
use super::{Name, splice};
use crate::programs;
use crate::trouble::{OrTrouble, Trouble};

const PATIENCE: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_millis(20);

/// A peer that runs. `Drop` ends it.
pub(super) struct Peer {
    pub(super) way: Way,
    process: Option<Child>,
}

impl Peer {
    /// Starts the peer of this name.
    pub(super) fn start(name: Name, world: &World, dir: &Path) -> Result<Self, Trouble> {
        let at = |port: u16| format!("127.0.0.1:{port}");
        let straight =
            |port: u16| Way { at: at(port), tunnel: None, trust: None, port: world.plain };
        let none = |way| Ok(Self { way, process: None });
        match name {
            Name::Direct => none(straight(world.plain)),
            Name::DirectTls => {
                let trust = Some(world.authority.clone());
                none(Way { at: at(world.tls), tunnel: None, trust, port: world.tls })
            }
            Name::Splice => {
                let port = splice::start(world.plain);
                none(straight(
                    port.or_trouble(|| "could not start the splice loop".to_owned())?,
                ))
            }
            Name::Socat => {
                let port = free()?;
                let listen =
                    format!("TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr,backlog=512");
                let to = format!("TCP:127.0.0.1:{}", world.plain);
                let mut socat = program("socat")?;
                Self::launch(socat.args(["-b", "262144", &listen, &to]), straight(port), dir)
            }
            Name::Haproxy => {
                let port = free()?;
                let file = write(dir, "haproxy.cfg", &haproxy(port, world.plain))?;
                Self::launch(
                    program("haproxy")?.arg("-db").arg("-f").arg(file),
                    straight(port),
                    dir,
                )
            }
            Name::Squid => {
                let port = free()?;
                let file = write(dir, "squid.conf", &squid(port))?;
                let way = Way { tunnel: Some(at(world.plain)), ..straight(port) };
                // By a name of its own: what squids share in memory goes by it.
                let own = format!("bench{}", std::process::id());
                let mut squid = program("squid")?;
                Self::launch(squid.args(["-N", "-n", &own, "-f"]).arg(file), way, dir)
            }
            Name::Mitmproxy => {
                let port = free()?;
                let way = Way { tunnel: Some(at(world.plain)), ..straight(port) };
                let mut mitm = mitmdump(port, dir)?;
                Self::launch(mitm.args(["--ignore-hosts", ".*"]), way, dir)
            }
            Name::MitmproxyTls => {
                let port = free()?;
                let trust = Some(dir.join("mitm/mitmproxy-ca-cert.pem"));
                let tunnel = Some(at(world.tls));
                let way = Way { at: at(port), tunnel, trust, port: world.tls };
                let mut mitm = mitmdump(port, dir)?;
                Self::launch(mitm.args(["--set", "ssl_insecure=true"]), way, dir)
            }
            Name::Bulkhead | Name::BulkheadConnect | Name::BulkheadTls => {
                Err(Trouble::new("Bulkhead is no peer of its own"))
            }
        }
    }

    fn launch(command: &mut Command, way: Way, dir: &Path) -> Result<Self, Trouble> {
        let name = command.get_program().to_string_lossy().into_owned();
        let log = dir.join("peer.log");
        let unstartable = || format!("could not start `{name}`");
        let file = File::create(&log).or_trouble(unstartable)?;
        let process = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().or_trouble(unstartable)?)
            .stderr(file)
            .spawn()
            .or_trouble(unstartable)?;
        let mut peer = Self { way, process: Some(process) };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(&peer.way.at).is_err() {
            let ended =
                peer.process.as_mut().is_none_or(|it| !matches!(it.try_wait(), Ok(None)));
            if ended || Instant::now() >= deadline {
                let said = programs::last_line(&fs::read_to_string(&log).unwrap_or_default());
                return Err(Trouble::new(format!("it does not answer: {said}")));
            }
            thread::sleep(PAUSE);
        }
        Ok(peer)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let Some(process) = &mut self.process else { return };
        let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
        let asked = pid.is_some_and(|pid| kill_process(pid, Signal::INT).is_ok());
        let deadline = Instant::now() + Duration::from_secs(5);
        while asked && Instant::now() < deadline {
            match process.try_wait() {
                Ok(None) => thread::sleep(PAUSE),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        drop(process.kill());
        drop(process.wait());
    }
}

/// A port that nobody has right now.
fn free() -> Result<u16, Trouble> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
    port.map(|it| it.port()).or_trouble(|| "there is no free port".to_owned())
}

fn program(name: &str) -> Result<Command, Trouble> {
    let found = programs::find(name);
    let found = found.ok_or_else(|| Trouble::new(format!("{name} is not installed")))?;
    // It must not outlive us even if we are killed; setpriv(1) becomes the program.
    let mut command = programs::command("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(found);
    Ok(command)
}

/// mitmproxy comes from `scripts/install-peers.sh`, in a place of its own.
fn mitmdump(port: u16, dir: &Path) -> Result<Command, Trouble> {
    let own = programs::repository().join("target/peers/mitmproxy/bin/mitmdump");
    let found = if own.exists() { Some(own) } else { programs::find("mitmdump") };
    let found = found.ok_or_else(|| Trouble::new("mitmproxy is not installed"))?;
    let mut command = programs::command("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(found)
        .args(["--quiet", "--listen-host", "127.0.0.1", "--listen-port", &port.to_string()])
        .arg("--set")
        .arg(format!("confdir={}", dir.join("mitm").display()));
    Ok(command)
}

fn write(dir: &Path, name: &str, text: &str) -> Result<PathBuf, Trouble> {
    let path = dir.join(name);
    fs::write(&path, text).or_trouble(|| format!("could not write `{}`", path.display()))?;
    Ok(path)
}

fn haproxy(port: u16, to: u16) -> String {
    format!(
        "global\n  maxconn 4000\ndefaults\n  mode tcp\n  option splice-auto\n  \
         timeout connect 10s\n  timeout client 60s\n  timeout server 60s\n\
         frontend inside\n  bind 127.0.0.1:{port}\n  default_backend outside\n\
         backend outside\n  server world 127.0.0.1:{to}\n"
    )
}

/// It tunnels to any port, and keeps nothing and no log.
fn squid(port: u16) -> String {
    format!(
        "http_port 127.0.0.1:{port}\nhttp_access allow all\ncache deny all\naccess_log none\n\
         cache_log /dev/null\npid_filename none\nshutdown_lifetime 0 seconds\n"
    )
}
