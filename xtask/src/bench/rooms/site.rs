//! Where the rooms are, and how they are made and used.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bulkhead_engine::rooms::pool::{self, Key};
use bulkhead_engine::rooms::{Admission, Client, Journal, Record, Reply, Reserve, launch};
use bulkhead_linux::prompt::{self, Children};
use bulkhead_policy::Policy;
use bulkhead_spec::{Bytes, Exec, Limits, Spec};
use tokio::runtime::Runtime;

use crate::programs;
use crate::scratch::Scratch;
use crate::trouble::{OrTrouble, Trouble};

/// What parked rooms of the bench are asked for by.
const SLOT: &str = "bench";

/// A place for rooms of which nothing remains.
pub(super) struct Site {
    pub(super) scratch: Scratch,
    pub(super) bulkhead: PathBuf,
    pub(super) journal: Journal,
    pub(super) runtime: Runtime,
    home: PathBuf,
    admission: Admission,
}

impl Site {
    pub(super) fn prepare(bulkhead: &Path) -> Result<Self, Trouble> {
        // This stands where the command or the server would, and both do so.
        prompt::ask(Children::Usual);
        let scratch = Scratch::new()?;
        let home = scratch.dir("home")?;
        // Shims are told by the environment where their rooms are, as everybody is.
        let (state, run) = (home.join("state"), home.join("run"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self {
            journal: Journal::new(&state, &run),
            admission: Admission { reserve: Reserve::default(), state },
            runtime: runtime.or_trouble(|| "could not start".to_owned())?,
            bulkhead: scratch.laid(bulkhead)?,
            scratch,
            home,
        })
    }

    /// `bulkhead` with these arguments.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = programs::command(&self.bulkhead);
        command.args(args).current_dir(self.scratch.path()).env_clear();
        command.env("PATH", programs::system_path()).env("HOME", &self.home);
        command.env("BULKHEAD_HOME", &self.home);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// A program that starts shims with the right environment.
    fn starter(&self) -> Result<PathBuf, Trouble> {
        let path = self.scratch.path().join("starter");
        if !path.exists() {
            let text = format!(
                "#!/bin/sh\nexport BULKHEAD_HOME={}\nexec {} \"$@\"\n",
                self.home.display(),
                self.bulkhead.display()
            );
            let unwritten = || format!("could not write `{}`", path.display());
            std::fs::write(&path, text).or_trouble(unwritten)?;
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&path, mode).or_trouble(unwritten)?;
        }
        Ok(path)
    }

    /// Makes the room `id`.
    pub(super) async fn make(&self, id: &str) -> Result<Client, Trouble> {
        self.make_of(&record(id)).await
    }

    /// Makes the room of `record`.
    pub(super) async fn make_of(&self, record: &Record) -> Result<Client, Trouble> {
        let made = launch(&self.starter()?, record, &self.admission).await;
        made.or_trouble(|| format!("could not make the room `{}`", record.id))?;
        Ok(Client::new(self.journal.socket(&record.id)))
    }

    /// Makes the room `id` for whoever wants one.
    pub(super) async fn park(&self, id: &str) -> Result<(), Trouble> {
        let record = record("");
        let key = Key::of(&record, &self.bulkhead);
        let key = key.ok_or_else(|| Trouble::new("such rooms cannot be made ahead"))?;
        let parked = pool::parked(&record, id.to_owned(), SLOT, &key);
        let made = launch(&self.starter()?, &parked, &self.admission).await;
        made.or_trouble(|| format!("could not park the room `{id}`"))
    }

    /// A room that was made ahead, for a name of our own.
    pub(super) async fn take(&self) -> Result<Client, Trouble> {
        let wanted = |id: &str| Record { name: format!("w-{id}"), ..record(id) };
        let taken = pool::take(&self.journal, wanted, &self.bulkhead).await;
        let taken = taken.or_trouble(|| "could not take a parked room".to_owned())?;
        let taken = taken.ok_or_else(|| Trouble::new("no parked room was to be had"))?;
        Ok(taken.client)
    }

    /// Every living room whose name begins with `prefix`.
    pub(super) fn living(&self, prefix: &str) -> Result<Vec<(String, Client)>, Trouble> {
        let listed = self.journal.living().or_trouble(|| "could not list rooms".to_owned())?;
        let ours = listed.into_iter().filter(|it| it.record.name.starts_with(prefix));
        let client = |id: String| (id.clone(), Client::new(self.journal.socket(&id)));
        Ok(ours.map(|it| client(it.record.id)).collect())
    }

    /// Ends a room and forgets it.
    pub(super) async fn end(&self, id: &str, client: &Client) -> Result<(), Trouble> {
        let ended = client.end(Duration::ZERO).await;
        ended.or_trouble(|| format!("could not end the room `{id}`"))?;
        self.journal.forget(id).or_trouble(|| format!("could not forget the room `{id}`"))
    }
}

/// A room as everybody would ask for it: the host's programs, no network, limits.
pub(super) fn record(id: &str) -> Record {
    let limits = Limits { memory: Some(Bytes(512 << 20)), pids: Some(64), ..Limits::default() };
    let spec = Spec { limits, ..Spec::default() };
    let (id, name) = (id.to_owned(), id.to_owned());
    let mut record = Record::new(id, name, spec, Policy::default());
    "native".clone_into(&mut record.backend);
    record
}

/// Runs a program in the room to its end.
pub(super) async fn exec(client: &Client, argv: &[&str]) -> Result<(), Trouble> {
    let failed = || format!("could not run `{}` in a room", argv.join(" "));
    let exec = Exec { argv: argv.iter().map(Into::into).collect(), ..Exec::default() };
    let mut attached = client.exec(exec, None).await.or_trouble(failed)?;
    loop {
        match attached.ear.next().await.or_trouble(failed)? {
            Reply::Ended(Ok(ending), _) if ending.exit_code() == 0 => return Ok(()),
            Reply::Ended(..) => return Err(Trouble::new(failed())),
            Reply::Said(..) | Reply::Lost(_) | Reply::Running => {}
        }
    }
}
