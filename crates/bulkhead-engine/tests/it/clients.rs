//! Real clients on their way out, with a world of one server whose names only the test knows.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use bulkhead_backends::Backend;
use bulkhead_egress::{Connecting, Connector, Resolver, Resolving, Upstream};
use bulkhead_engine::{Outside, Secrets};
use bulkhead_policy::Policy;
use bulkhead_spec::{HostName, Network, Secret, SecretBinding, allowing};

use crate::{
    ask::{Ask, sh},
    house::{House, engine, native},
};

mod containers;
mod installers;
mod libraries;
mod ssh;

const HOSTS: [&str; 6] = [
    "files.example.com",
    "api.anthropic.com",
    "other.example.com",
    "pip.example.com",
    "npm.example.com",
    "crates.example.com",
];
/// What must never be seen inside, nor be written down.
const KEY: &str = "sk-ant-api03-CANARY0123456789abcdefghijklmnop";

/// A server that has every name, and an authority that says so.
struct World {
    dir: PathBuf,
    server: Child,
    port: u16,
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.kill().unwrap_or_default();
        self.server.wait().map(drop).unwrap_or_default();
    }
}

#[expect(clippy::disallowed_methods, reason = "the world outside needs programs")]
fn command(program: &str, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn done(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

impl World {
    fn new(dir: &Path) -> Self {
        fs::create_dir(dir).unwrap();
        fs::create_dir(dir.join("files")).unwrap();
        fs::write(dir.join("files/hello"), "hello\n").unwrap();
        let names = HOSTS.map(|it| format!("DNS:{it}")).join(",");
        let certify = format!(
            "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority \
               -keyout ca.key -out ca.pem && \
             openssl req -newkey rsa:2048 -nodes -subj /CN=world -keyout key.pem -out request.pem && \
             printf 'subjectAltName={names}\nbasicConstraints=CA:FALSE\n' > extensions && \
             openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
               -extfile extensions -out world.pem"
        );
        done(command("sh", dir).args(["-c", &certify]));
        done(command("sh", dir).args([
            "-c",
            "git init -q repo && cd repo && git -c user.name=a -c user.email=a@example.com \
             commit -q --allow-empty -m 'from the world' && cd .. && \
             git clone -q --bare repo files/repo.git && git -C files/repo.git update-server-info",
        ]));
        let script =
            |name: &str| format!("{}/tests/it/clients/{name}", env!("CARGO_MANIFEST_DIR"));
        let registries = script("registries.py");
        done(command("/usr/bin/python3", dir).arg(registries).arg(dir.join("files")));
        let mut server = command("/usr/bin/python3", dir);
        server
            .arg(script("server.py"))
            .arg(dir.join("files"))
            .arg(dir.join("world.pem"))
            .arg(dir.join("key.pem"));
        let mut server = server.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        Self { dir: dir.to_owned(), server, port }
    }

    fn authority(&self) -> String {
        fs::read_to_string(self.dir.join("ca.pem")).unwrap()
    }

    /// What the server was asked for.
    fn heard(&self) -> String {
        fs::read_to_string(self.dir.join("heard")).unwrap_or_default()
    }
}

/// Every name has one public address, and that is the server; its port for ssh is another.
struct Map {
    port: u16,
    ssh: Option<u16>,
}

impl Resolver for Map {
    fn resolve<'a>(&'a self, _: &'a HostName) -> Resolving<'a> {
        Box::pin(async { Ok(vec![IpAddr::from([93, 184, 216, 34])]) })
    }
}

impl Connector for Map {
    fn connect(&self, to: SocketAddr) -> Connecting<'_> {
        let ssh = self.ssh.filter(|_| to.port() == 22);
        let port = ssh.unwrap_or(self.port);
        Box::pin(tokio::net::TcpStream::connect(("127.0.0.1", port)))
    }

    fn is_own(&self, _: IpAddr) -> bool {
        false
    }
}

struct OneSecret;

impl Secrets for OneSecret {
    fn value(&self, _: &SecretBinding) -> Result<Secret, String> {
        Ok(Secret::new(KEY))
    }
}

/// A house in that world, with what clients need in its workspace.
fn house() -> (House, World) {
    house_with(None)
}

/// The same, where somebody answers to ssh.
fn house_with(ssh: Option<u16>) -> (House, World) {
    house_of(native, ssh)
}

/// The same, with this backend.
fn house_of(
    backend: impl FnOnce(&Path) -> Box<dyn Backend>,
    ssh: Option<u16>,
) -> (House, World) {
    let mut world = None;
    let house = House::build(|dir| {
        let made = World::new(&dir.join("world"));
        let map = Arc::new(Map { port: made.port, ssh });
        let outside = Outside {
            networks: None,
            secrets: Box::new(OneSecret),
            upstream: Upstream { roots: vec![made.authority()], ..Upstream::default() },
            resolver: map.clone(),
            connector: map,
            sockets: None,
        };
        world = Some(made);
        let engine = engine(dir, Policy::default(), vec![backend(dir)]);
        bulkhead_engine::Engine { outside, ..engine }
    });
    let world = world.unwrap();
    fs::write(house.workspace().join("ca.pem"), world.authority()).unwrap();
    let java = include_str!("clients/Get.java");
    fs::write(house.workspace().join("Get.java"), java).unwrap();
    (house, world)
}

/// `script` with a way out by these rules.
fn out(house: &House, allow: &[&str], script: &str) -> Ask {
    sh(&format!("set -e\n{script}")).on(&house.workspace()).with(|it| {
        it.spec.network = Network::Proxy;
        let rules = allow.iter().flat_map(|it| allowing(it, "the test").unwrap());
        it.spec.egress.allow = rules.collect();
    })
}

const NO_PROXY: &str = "unset HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy NODE_USE_ENV_PROXY";

const CURL: &str = "curl -sS --max-time 120 --cacert ca.pem https://files.example.com/hello";
const GIT: &str = "rm -rf clone; git -c http.sslCAInfo=$PWD/ca.pem clone -q https://files.example.com/repo.git clone; git -C clone log -1 --format=%s";
const PYTHON: &str = "/usr/bin/python3 -c \"import ssl, urllib.request as u; print(u.urlopen('https://files.example.com/hello', context=ssl.create_default_context(cafile='ca.pem')).read().decode(), end='')\"";
const BARE: &str = "/usr/bin/python3 -c \"
import socket, ssl
context = ssl.create_default_context(cafile='ca.pem')
with context.wrap_socket(socket.create_connection(('files.example.com', 443), 120), server_hostname='files.example.com') as it:
    it.sendall(b'GET /hello HTTP/1.0\\r\\nHost: files.example.com\\r\\n\\r\\n')
    print(b''.join(iter(lambda: it.recv(999), b'')).split(b'\\r\\n\\r\\n')[1].decode(), end='')\"";

async fn greets(client: &str, expected: &str) {
    let (house, _world) = house();
    let both = format!("{client}\n{NO_PROXY}\n{client}");
    let said = house.says(out(&house, &["files.example.com"], &both)).await;
    assert_eq!(said, expected.repeat(2));
}

#[tokio::test]
async fn curl_gets_out_with_and_without_a_proxy() {
    greets(CURL, "hello\n").await;
}

#[tokio::test]
async fn git_gets_out_with_and_without_a_proxy() {
    greets(GIT, "from the world\n").await;
}

#[tokio::test]
async fn python_gets_out_with_and_without_a_proxy() {
    greets(PYTHON, "hello\n").await;
}

#[tokio::test]
async fn a_program_that_knows_nothing_of_proxies_gets_out() {
    greets(BARE, "hello\n").await;
}

#[tokio::test]
async fn what_is_not_allowed_reaches_nobody_by_any_client() {
    let (house, world) = house();
    let script = "set +e
        for url in https://other.example.com/hello https://93.184.216.34/hello; do
          curl -sS --max-time 120 -k $url; curl -sS --max-time 120 -k --noproxy '*' $url
        done
        # An allowed name in front of another host.
        curl -sS --max-time 120 -k --noproxy '*' --resolve other.example.com:443:198.18.1.0 https://other.example.com/hello
        curl -sS --max-time 120 -k --noproxy '*' --connect-to other.example.com:443:files.example.com:443 https://other.example.com/hello
        exit 0";
    let outcome = house.run(out(&house, &["files.example.com"], script)).await.unwrap();
    assert_eq!(crate::house::text(&outcome.stdout), "");
    assert_eq!(world.heard(), "");
    assert!(outcome.denied_hosts.contains(&"other.example.com:443".to_owned()));
}

/// Clients that trust the gateway by nothing but the variables that the sandbox starts with.
#[tokio::test]
async fn a_secret_reaches_its_host_and_nobody_inside() {
    let (house, world) = house();
    uses_a_secret(&house, &world, |ask| ask).await;
}

async fn uses_a_secret(house: &House, world: &World, change: impl FnOnce(Ask) -> Ask) {
    let script = "post=https://api.anthropic.com/v1/messages
        curl -sS --max-time 120 -H \"x-api-key: $ANTHROPIC_API_KEY\" -d '{}' $post >/dev/null
        curl -sS --max-time 120 --noproxy '*' -H \"x-api-key: $ANTHROPIC_API_KEY\" -d '{}' $post >/dev/null
        /usr/bin/python3 -c \"import os, urllib.request as u; u.urlopen(u.Request('$post', b'{}', {'x-api-key': os.environ['ANTHROPIC_API_KEY']})).read()\"
        if [ -x /usr/bin/node ]; then
          node -e \"fetch('$post', {method: 'POST', body: '{}', headers: {'x-api-key': process.env.ANTHROPIC_API_KEY}}).then(it => it.text())\"
        fi
        if [ -x /usr/bin/javac ] || java --list-modules 2>/dev/null | grep -q jdk.compiler; then
          java Get.java https://api.anthropic.com/hello \"$ANTHROPIC_API_KEY\"
        fi
        # To another host it goes as it is.
        curl -sS --max-time 120 --cacert ca.pem -H \"x-api-key: $ANTHROPIC_API_KEY\" https://files.example.com/hello
        env; cat /proc/*/environ 2>/dev/null || true";
    let ask = out(house, &["files.example.com", "https://api.anthropic.com"], script);
    let ask = ask.with(|it| {
        let binding: SecretBinding = "ANTHROPIC_API_KEY@api.anthropic.com".parse().unwrap();
        it.spec.egress.secrets = vec![binding];
    });
    let outcome = house.run(change(ask)).await.unwrap();
    let (said, complaints) =
        (crate::house::text(&outcome.stdout), crate::house::text(&outcome.stderr));
    assert_eq!(outcome.ending.exit_code(), 0, "{said}{complaints}");
    let heard = world.heard();
    let right = format!("api.anthropic.com /v1/messages {KEY}");
    let times = if Path::new("/usr/bin/node").exists() { 4 } else { 3 };
    assert_eq!(heard.matches(&right).count(), times, "{heard}\n{complaints}");
    assert!(!heard.contains(&format!("files.example.com /hello {KEY}")), "{heard}");
    assert!(!said.contains("CANARY") && !complaints.contains("CANARY"));
    assert!(!house.ledger().contains("CANARY"));
    assert!(house.ledger().contains("secret_used"));
}
