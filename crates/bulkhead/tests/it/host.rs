//! A host of its own for each test: a home, a project, a place for records.

use std::{
    ffi::OsStr,
    fs,
    io::{Read as _, Write as _},
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

/// An ordinary user that this machine does not know by name.
pub(crate) const SOMEBODY: u32 = 54321;

/// Directories that nothing else uses.
pub(crate) struct Host {
    dir: tempfile::TempDir,
    bulkhead: PathBuf,
    /// Who works here, if it is not who runs the tests.
    worker: Option<u32>,
}

/// What came of a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// All of it, for a snapshot.
    pub(crate) fn shown(&self) -> String {
        let code = self.code.map_or("killed".to_owned(), |code| code.to_string());
        let mut text = vec![format!("exit code: {code}\n")];
        for (name, stream) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !stream.is_empty() {
                text.push(format!("----- {name}\n{stream}"));
            }
        }
        text.concat()
    }
}

impl Host {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let bulkhead = PathBuf::from(env!("CARGO_BIN_EXE_bulkhead"));
        let host = Self { dir, bulkhead, worker: None };
        fs::create_dir(host.home()).unwrap();
        fs::create_dir(host.project()).unwrap();
        // So that no configuration further up belongs to the project.
        fs::create_dir(host.project().join(".git")).unwrap();
        host
    }

    /// That of an ordinary user: another one if root runs the tests.
    pub(crate) fn of_ordinary_user() -> Self {
        let mut host = Self::new();
        if !rustix::process::geteuid().is_root() {
            return host;
        }
        // Where the tests are built, an ordinary user may not look.
        let copy = host.path().join("bulkhead");
        fs::copy(&host.bulkhead, &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        give(host.path(), SOMEBODY);
        (host.bulkhead, host.worker) = (copy, Some(SOMEBODY));
        host
    }

    /// Who works here, if it is not who runs the tests.
    pub(crate) fn worker(&self) -> Option<u32> {
        self.worker
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.path().join("project")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path().join("records/state")
    }

    /// Writes a file, and the directories above it.
    pub(crate) fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// The user's own configuration.
    pub(crate) fn user(&self, text: &str) {
        self.write("home/.config/bulkhead/config.toml", text);
    }

    /// The project's.
    pub(crate) fn project_file(&self, text: &str) -> PathBuf {
        self.write("project/.bulkhead/config.toml", text)
    }

    /// The command, in the project, with an environment of its own.
    pub(crate) fn command<I: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = I>,
    ) -> Command {
        let mut command = self.program(self.bulkhead.to_str().unwrap());
        command.args(args);
        command
    }

    /// A shell in which the command is `$0`.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut command = self.program("/bin/sh");
        command.args(["-c", script]).arg(&self.bulkhead);
        command
    }

    /// Another program in the same place, with the same environment.
    #[expect(clippy::disallowed_methods, reason = "the command is what is tested")]
    pub(crate) fn program(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("BULKHEAD_HOME", self.path().join("records"))
            // The machine's own daemons are no part of this host.
            .env("DOCKER_HOST", self.absent("docker"))
            .env("CONTAINER_HOST", self.absent("podman"))
            .current_dir(self.project())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(worker) = self.worker {
            command.uid(worker).gid(worker);
        }
        command
    }

    /// The address of a daemon that is not there.
    fn absent(&self, name: &str) -> String {
        format!("unix://{}/no-{name}.sock", self.path().display())
    }

    /// Runs the command to its end.
    pub(crate) fn bulkhead<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Ran {
        self.ended(&mut self.command(args))
    }

    /// Runs the command with `input` to its end.
    pub(crate) fn fed(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A program that does not read its input is no failure of the test.
        stdin.write_all(input).unwrap_or_default();
        drop(stdin);
        self.ran(child.wait_with_output().unwrap())
    }

    /// Runs `command` to its end.
    pub(crate) fn ended(&self, command: &mut Command) -> Ran {
        self.ran(command.output().unwrap())
    }

    /// What became of a program that has ended.
    pub(crate) fn ran(&self, output: Output) -> Ran {
        let text = |bytes: Vec<u8>| {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let text = text.replace(self.path().to_str().unwrap(), "[HOST]");
            // Which defaults hold depends on the machine, and has a test of its own.
            let told = |line: &&str| !line.starts_with("bulkhead: not held on this host");
            text.split_inclusive('\n').filter(told).collect()
        };
        Ran {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// The output as JSON.
    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        let ran = self.bulkhead(args);
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    }
}

/// Makes everything in and below `path` belong to `user`.
pub(crate) fn give(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        give(&entry.path(), user);
    }
}

/// Waits until `child` says `word`.
pub(crate) fn hear(child: &mut Child, word: &str) {
    let stdout = child.stdout.as_mut().unwrap();
    let mut heard = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&heard).contains(word) {
        assert_eq!(stdout.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&heard));
        heard.extend(byte);
    }
}

/// Waits until `done`, and fails if that takes longer than `limit`.
pub(crate) fn within(limit: Duration, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !done() {
        assert!(Instant::now() < end, "took longer than {limit:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The processes of this machine whose command line has `word` in it.
pub(crate) fn processes_with(word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(word) {
            found.push(line);
        }
    }
    found
}
