//! E2B's own SDKs, unmodified, against `bulkhead serve`.

mod interpreter;

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::{
    agents::{KEY, Models},
    host::{Host, within},
};

/// A server, ended with its test.
struct Server {
    host: Host,
    child: Child,
    address: String,
    key: String,
}

impl Server {
    fn start() -> Self {
        Self::start_with(&["--listen", "127.0.0.1:0"])
    }

    /// One that is started with `flags`.
    fn start_with(flags: &[&str]) -> Self {
        Self::start_on(Host::new(), flags, |_| ())
    }

    /// One with surroundings of its own.
    fn start_on(host: Host, flags: &[&str], surround: impl FnOnce(&mut Command)) -> Self {
        let key = host.bulkhead(["key", "create", "test"]).stdout.trim().to_owned();
        let mut command = host.command(["serve"].iter().chain(flags));
        surround(&mut command);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = told
            .find_map(|line| {
                let line = line.unwrap();
                line.split_once("serving at ").map(|(_, address)| address.to_owned())
            })
            .expect("the server says where it is");
        // Whatever else it says is read, so that it can say it.
        std::thread::spawn(move || told.for_each(drop));
        Self { host, child, address, key }
    }

    /// What `program` says when it is pointed at the server.
    fn client(&self, program: &Path, args: &[&str]) -> String {
        let at = ["E2B_API_URL", "E2B_SANDBOX_URL"].map(|it| (it, self.address.clone()));
        self.client_with(program, args, &at)
    }

    /// What `program` says in surroundings that name the server in another way.
    fn client_with(
        &self,
        program: &Path,
        args: &[&str],
        surroundings: &[(&str, String)],
    ) -> String {
        let mut command = self.pointed(program, args);
        command.envs(surroundings.iter().map(|(name, it)| (*name, it)));
        let output = command.output().unwrap();
        let status = output.status;
        let ran = self.host.ran(output);
        assert!(status.success(), "{status}\n{}\n{}", ran.stdout, ran.stderr);
        ran.stdout
    }

    /// `program`, which has the key.
    fn pointed(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = self.host.program(program.to_str().unwrap());
        command.args(args).env("E2B_API_KEY", &self.key);
        command
    }

    /// A client that listens to a program that does not end, by its room and its number.
    fn listener(&self) -> (Child, Heard, String, String) {
        let python = installed("python/bin/python");
        let mut command = self.pointed(&python, &[script("stream.py").to_str().unwrap()]);
        for name in ["E2B_API_URL", "E2B_SANDBOX_URL"] {
            command.env(name, &self.address);
        }
        let mut child = command.spawn().unwrap();
        let mut heard = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = heard.next().unwrap().unwrap();
        let (room, program) = first.split_once(' ').unwrap();
        assert_eq!(heard.next().unwrap().unwrap(), "heard");
        (child, heard, room.to_owned(), program.to_owned())
    }

    /// What is said by whoever listens to the program from now on, and then ends the room.
    fn goes_on(&self, room: &str, program: &str) -> String {
        let look = format!(
            "from e2b import Sandbox; r = Sandbox.connect('{room}')\n\
             assert [it.pid for it in r.commands.list()] == [{program}]\n\
             print(next(iter(r.commands.connect({program})))[0].split()[0], r.kill())"
        );
        self.client(&installed("python/bin/python"), &["-c", &look])
    }

    /// The most memory that it has used, in bytes.
    fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// How many descriptors it has open.
    fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Kills it and starts another at the same place.
    fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let at = self.address.trim_start_matches("http://").to_owned();
        let mut command = self.host.command(["serve", "--listen", &at]);
        self.child = command.stderr(Stdio::null()).spawn().unwrap();
        within(Duration::from_secs(10), || std::net::TcpStream::connect(&at).is_ok());
    }

    /// The rooms that are left.
    fn rooms(&self) -> String {
        self.host.bulkhead(["ls", "--all", "--quiet"]).stdout
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for room in self.rooms().lines() {
            self.host.bulkhead(["rm", "--force", room]);
        }
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The lines that a client says.
type Heard = std::io::Lines<BufReader<std::process::ChildStdout>>;

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2b").join(name)
}

/// Something that `scripts/install-sdks.sh` installs.
fn installed(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/sdks").join(path);
    assert!(path.exists(), "{} is missing: run scripts/install-sdks.sh", path.display());
    path
}

#[test]
fn the_python_sdk_works_as_it_is() {
    let server = Server::start();
    let python = installed("python/bin/python");
    let said = server.client(&python, &[script("sync.py").to_str().unwrap()]);
    assert_eq!(said, "all well\n");
    assert_eq!(server.rooms(), "");
}

#[test]
fn rooms_made_ahead_are_the_clients_and_no_more_than_may_be() {
    let host = Host::new();
    host.user("[rooms]\nmost = 2\n");
    let flags = ["--listen", "127.0.0.1:0", "--pool", "2"];
    let server = Server::start_on(host, &flags, |_| ());
    let waiting = || server.host.bulkhead(["pool", "ls", "-q"]).stdout.lines().count();
    within(Duration::from_mins(1), || waiting() == 2);
    let python = installed("python/bin/python");
    let said = server.client(&python, &[script("full.py").to_str().unwrap()]);
    let rooms: Vec<&str> = said.split_whitespace().collect();
    assert_eq!(rooms.len(), 2, "{said}");
    for room in rooms {
        let pool = server.host.json(&["inspect", room])["room"]["pool"].clone();
        assert!(pool["taken"]["made"].is_u64(), "{pool}");
    }
    // Others are made in their place, and gone with the server.
    within(Duration::from_mins(1), || waiting() == 2);
    let server_process = i32::try_from(server.child.id()).unwrap();
    let server_process = rustix::process::Pid::from_raw(server_process).unwrap();
    rustix::process::kill_process(server_process, rustix::process::Signal::TERM).unwrap();
    within(Duration::from_mins(1), || waiting() == 0);
}

#[test]
fn network_options_of_the_sdk_become_rules() {
    let server = Server::start();
    let python = installed("python/bin/python");
    let said = server.client(&python, &[script("network.py").to_str().unwrap()]);
    assert_eq!(said, "all well\n");
    assert_eq!(server.rooms(), "");
}

#[test]
fn secrets_of_the_sdk_reach_their_host_and_no_room() {
    let host = Host::new();
    let models = Models::start(&host);
    let server = Server::start_on(host, &["--listen", "127.0.0.1:0"], |it| models.lead(it));
    let python = installed("python/bin/python");
    let said = server.client(&python, &[script("store.py").to_str().unwrap(), KEY]);
    assert_eq!(said, "all well\n");
    let heard = std::fs::read_to_string(server.host.path().join("heard")).unwrap();
    let keys = [KEY, &format!("live-{KEY}"), &format!("live-{KEY}"), KEY];
    let all = keys.map(|it| format!("POST api.anthropic.com/v1/messages {it}\n"));
    assert_eq!(heard, all.concat());
    let left = server.host.state().join("server/headers");
    assert_eq!(std::fs::read_dir(left).unwrap().count(), 0);
}

#[test]
fn a_room_that_was_not_made_leaves_no_headers() {
    let server = Server::start();
    let python = installed("python/bin/python");
    let make = "from e2b import Sandbox; r = Sandbox.create(timeout=60); \
                print(r.create_snapshot().snapshot_id); r.kill()";
    let snapshot = server.client(&python, &["-c", make]).trim().to_owned();
    let kept = server.host.bulkhead(["checkpoint", "ls", "--quiet"]).stdout;
    server.host.bulkhead(["checkpoint", "rm", kept.trim()]);
    let again = format!(
        "from e2b import ALL_TRAFFIC, Sandbox, SandboxException\n\
         rules = {{'a.example': [{{'transform': {{'headers': {{'X-A': 'b'}}}}}}]}}\n\
         network = {{'allow_out': ['a.example'], 'deny_out': [ALL_TRAFFIC], 'rules': rules}}\n\
         try: Sandbox.create('{snapshot}', timeout=60, network=network)\n\
         except SandboxException as error: print('refused')"
    );
    assert_eq!(server.client(&python, &["-c", &again]), "refused\n");
    let left = std::fs::read_dir(server.host.state().join("server/headers"));
    assert_eq!(left.map_or(0, Iterator::count), 0);
}

#[test]
fn a_room_whose_time_is_over_is_forgotten() {
    let mut server = Server::start();
    let python = installed("python/bin/python");
    let make = "from e2b import Sandbox; print(Sandbox.create(timeout=1).sandbox_id)";
    server.client(&python, &["-c", make]);
    within(Duration::from_secs(30), || server.rooms().is_empty());
    // One that ended while nobody served is forgotten by whoever serves next.
    let make = "from e2b import Sandbox; print(Sandbox.create(timeout=2).sandbox_id)";
    let id = server.client(&python, &["-c", make]).trim().to_owned();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let ended = || server.host.bulkhead(["ls", "--all"]).stdout.contains("ended");
    within(Duration::from_secs(30), ended);
    assert_eq!(server.rooms().trim(), id);
    server.restart();
    within(Duration::from_secs(30), || server.rooms().is_empty());
}

#[test]
fn volumes_of_the_sdk_outlive_their_rooms() {
    let server = Server::start();
    let python = installed("python/bin/python");
    let at = ["E2B_API_URL", "E2B_SANDBOX_URL", "E2B_VOLUME_API_URL"];
    let at = at.map(|it| (it, server.address.clone()));
    let script = script("volumes.py");
    let said = server.client_with(&python, &[script.to_str().unwrap()], &at);
    assert_eq!(said, "all well\n");
}

#[test]
fn the_command_works_as_it_is() {
    let server = Server::start();
    let command = installed("command/node_modules/.bin/e2b");
    let e2b = |args: &[&str]| server.client(&command, args);
    assert!(e2b(&["sandbox", "list"]).contains("No sandboxes found"));
    let id = e2b(&["sandbox", "create", "base", "--detach"]).trim().to_owned();
    assert!(e2b(&["sandbox", "list"]).contains(&id));
    assert_eq!(e2b(&["sandbox", "exec", &id, "echo", "from inside"]), "from inside\n");
    let info = e2b(&["sandbox", "info", &id]);
    assert!(info.contains("State: running") && info.contains("access: false"), "{info}");
    assert!(e2b(&["sandbox", "metrics", &id]).contains("CPU"));
    assert!(e2b(&["sandbox", "logs", &id]).contains("started 1"));
    assert!(e2b(&["sandbox", "pause", &id]).contains("paused"));
    assert!(e2b(&["sandbox", "info", &id]).contains("State: paused"));
    assert!(e2b(&["sandbox", "resume", &id]).contains("resumed"));
    assert!(e2b(&["sandbox", "kill", &id]).contains("killed"));
    assert_eq!(server.rooms(), "");
}

#[test]
fn an_image_that_may_not_be_used_makes_no_sandbox() {
    let host = Host::new();
    host.user("ceiling.images = [\"local\"]\n");
    let server = Server::start_on(host, &["--listen", "127.0.0.1:0"], |_| ());
    let ask = "from e2b import Sandbox, SandboxException\n\
               for name in ['registry.example/evil', 'docker-daemon:///etc', 'no-template']:\n\
               \x20 try: Sandbox.create(name)\n\
               \x20 except SandboxException as error: print(str(error)[:3])";
    let said = server.client(&installed("python/bin/python"), &["-c", ask]);
    assert_eq!(said, "400\n400\n404\n");
    assert_eq!(server.rooms(), "");
}

#[test]
#[ignore = "starts a daemon, which takes root; test.sh"]
fn an_image_of_the_container_engine_is_a_template() {
    let setup = bulkhead_testbed::Setup::new("tests-of-e2b");
    let dockerd = bulkhead_testbed::Dockerd::ready(setup).unwrap();
    let server = Server::start_on(Host::new(), &["--listen", "127.0.0.1:0"], |it| {
        it.env("DOCKER_HOST", dockerd.address());
    });
    let ask = format!(
        "from e2b import Sandbox\n\
         r = Sandbox.create('docker-daemon:{}', timeout=60)\n\
         print(r.commands.run('ls /usr/bin/git || echo none').stdout, end='')\n\
         print(r.get_info().template_id, r.kill())",
        bulkhead_testbed::IMAGE
    );
    let said = server.client(&installed("python/bin/python"), &["-c", &ask]);
    let image = bulkhead_testbed::IMAGE;
    assert_eq!(said, format!("none\ndocker-daemon:{image} True\n"));
    assert_eq!(server.rooms(), "");
}

#[test]
fn snapshots_copies_and_templates_of_the_sdk_work() {
    let server = Server::start();
    let python = installed("python/bin/python");
    let said = server.client(&python, &[script("templates.py").to_str().unwrap()]);
    assert_eq!(said, "all well\n");
    assert_eq!(server.rooms(), "");
}

#[test]
fn two_hundred_rooms_at_once_work_through_the_asynchronous_sdk() {
    let server = Server::start();
    let python = installed("python/bin/python");
    let said = server.client(&python, &[script("crowd.py").to_str().unwrap(), "200"]);
    assert_eq!(said, "all well\n");
    assert_eq!(server.rooms(), "");
}

/// A client sends and fetches a file of a GiB, of which the server holds but a little.
fn gibibyte(client: impl FnOnce(&Server, &str) -> String) {
    let flags = ["--listen", "127.0.0.1:0", "--memory", "3g", "--disk", "2g"];
    let server = Server::start_with(&flags);
    let before = server.peak();
    assert_eq!(client(&server, "1024"), "all well\n");
    let grown = server.peak() - before;
    assert!(grown < 48 << 20, "the server has grown by {} MiB", grown >> 20);
}

#[test]
fn a_gibibyte_of_the_python_sdk_passes_both_ways_without_being_held() {
    gibibyte(|server, count| {
        let big = script("big.py");
        server.client(&installed("python/bin/python"), &[big.to_str().unwrap(), count])
    });
}

#[test]
fn a_gibibyte_of_the_javascript_sdk_passes_both_ways_without_being_held() {
    gibibyte(|server, count| {
        let copy = installed("javascript").join("big.mjs");
        std::fs::copy(script("big.mjs"), &copy).unwrap();
        server.client(Path::new("/usr/bin/node"), &[copy.to_str().unwrap(), count])
    });
}

#[test]
fn a_client_that_vanishes_leaves_its_program_and_nothing_else() {
    let server = Server::start();
    let before = server.descriptors();
    let (mut child, _, room, program) = server.listener();
    child.kill().unwrap();
    child.wait().unwrap();
    // One that vanishes in the middle of an upload.
    let at = server.address.trim_start_matches("http://");
    let mut stream = std::net::TcpStream::connect(at).unwrap();
    let head = format!(
        "POST /files?path=half HTTP/1.1\r\nHost: {at}\r\nE2b-Sandbox-Id: {room}\r\n\
         E2b-Sandbox-Port: 49983\r\nContent-Type: application/octet-stream\r\n\
         Content-Length: 9999999\r\n\r\n"
    );
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    std::io::Write::write_all(&mut stream, &vec![7; 100_000]).unwrap();
    drop(stream);
    let patience = Duration::from_secs(30);
    within(patience, || server.descriptors() <= before + 2);
    assert_eq!(server.goes_on(&room, &program), "tick True\n");
    assert_eq!(server.rooms(), "");
}

#[test]
fn a_server_that_is_killed_in_the_middle_cuts_off_and_goes_on() {
    let mut server = Server::start();
    let (mut child, heard, room, program) = server.listener();
    server.restart();
    let last = heard.map(Result::unwrap).find(|it| it != "heard");
    assert_eq!(last.as_deref(), Some("cut off"));
    child.wait().unwrap();
    assert_eq!(server.goes_on(&room, &program), "tick True\n");
}

#[test]
fn the_javascript_sdk_works_as_it_is() {
    let server = Server::start();
    // Packages are looked for where the script lies.
    let copy = installed("javascript").join("all.mjs");
    std::fs::copy(script("all.mjs"), &copy).unwrap();
    let said = server.client(Path::new("/usr/bin/node"), &[copy.to_str().unwrap()]);
    assert_eq!(said, "all well\n");
    assert_eq!(server.rooms(), "");
}

/// A server that is known by its domain, over TLS, and what it wants its clients to trust.
fn known_by_domain() -> (Server, [(&'static str, String); 3]) {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let domain = format!("rooms.test:{}", free.port());
    let server = Server::start_with(&["--listen", &free.to_string(), "--domain", &domain]);
    let authority = server.host.state().join("server/tls/authority.pem");
    let authority = authority.to_str().unwrap().to_owned();
    let trust = [
        ("E2B_DOMAIN", domain),
        ("SSL_CERT_FILE", authority.clone()),
        ("NODE_EXTRA_CA_CERTS", authority),
    ];
    (server, trust)
}

#[test]
fn the_first_generation_of_the_python_sdk_works_by_domain_over_tls() {
    let (server, trust) = known_by_domain();
    let python = installed("python-old/bin/python");
    let script = script("old.py");
    let said = server.client_with(&python, &[script.to_str().unwrap()], &trust);
    assert_eq!(said, "all well\n");
    assert_eq!(server.rooms(), "");
}

#[test]
fn the_first_generation_of_the_javascript_sdk_works_by_domain_over_tls() {
    let (server, trust) = known_by_domain();
    let copy = installed("javascript-old").join("old.mjs");
    std::fs::copy(script("old.mjs"), &copy).unwrap();
    let node = Path::new("/usr/bin/node");
    let said = server.client_with(node, &[copy.to_str().unwrap()], &trust);
    assert_eq!(said, "all well\n");
    assert_eq!(server.rooms(), "");
}

#[test]
fn a_server_that_was_killed_finds_its_rooms_again() {
    let mut server = Server::start();
    let python = installed("python/bin/python");
    let make = "from e2b import Sandbox; r = Sandbox.create(timeout=60); \
                r.files.write('note', 'kept'); print(r.sandbox_id)";
    let id = server.client(&python, &["-c", make]).trim().to_owned();
    server.restart();
    let look = format!(
        "from e2b import Sandbox; r = Sandbox.connect('{id}'); \
         print(r.files.read('note')); r.kill()"
    );
    assert_eq!(server.client(&python, &["-c", &look]), "kept\n");
}

#[test]
fn nobody_comes_in_without_a_key() {
    let server = Server::start();
    let python = installed("python/bin/python");
    let look = "import urllib.request, urllib.error, os\n\
                for key in [{}, {'X-API-Key': 'e2b_00'}]:\n\
                \x20   request = urllib.request.Request(os.environ['E2B_API_URL'] + '/v2/sandboxes', \
                headers=key)\n\
                \x20   try: urllib.request.urlopen(request); print('in')\n\
                \x20   except urllib.error.HTTPError as error: print(error.code)";
    assert_eq!(server.client(&python, &["-c", look]), "401\n401\n");
}
