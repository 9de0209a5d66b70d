//! What must not be shared, whoever asks: a whole home by accident, and what decides about
//! sandboxes.

use std::path::Path;

use bulkhead_linux::paths::real;
use bulkhead_spec::{Access, GuestPath, Mount, Walls};

use super::Asked;
use crate::{codes::Code, config::shown, failure::Failure};

impl Asked<'_> {
    /// Places that are empty inside, after a look at what is shared with walls around it.
    pub(super) fn empty(
        &self,
        walls: Walls,
        mounts: &[Mount],
    ) -> Result<Vec<GuestPath>, Failure> {
        let mut tmpfs = self.ask.files.tmpfs.clone();
        if walls == Walls::Up {
            self.check_workspace()?;
            self.check_precious(mounts)?;
            tmpfs.extend(self.sockets(mounts)?);
        }
        Ok(tmpfs)
    }

    /// Refuses to share a whole home because somebody happened to be there.
    fn check_workspace(&self) -> Result<(), Failure> {
        let named = self.ask.workspace.workspace.is_some();
        let home = self.config.environment.home().and_then(|home| real(&home).ok());
        let (Some(workspace), Some(home), false) = (&self.workspace, home, named) else {
            return Ok(());
        };
        if !home.starts_with(workspace.dir.as_path()) {
            return Ok(());
        }
        let what = format!("`{}` holds your whole home directory", workspace.dir);
        Err(Failure::new(Code::Workspace, what)
            .hint("change to the directory of a project")
            .hint("or share no directory: bulkhead run --no-workspace …")
            .hint("or share it all the same: bulkhead run --workspace . …"))
    }

    /// Places at which the sandbox would see the sockets by which sandboxes are ruled; one under a
    /// read-only mount still answers, so something empty is put there.
    fn sockets(&self, mounts: &[Mount]) -> Result<Vec<GuestPath>, Failure> {
        let Some(runtime) = &self.config.paths.runtime else { return Ok(Vec::new()) };
        let workspace = self.workspace.iter().map(|it| (it.dir.as_path(), it.dir.as_path()));
        let shared = mounts.iter().map(|it| (it.from.as_path(), it.to.as_path()));
        let shared: Vec<_> = workspace.chain(shared).collect();
        let touches = |runtime: &Path| {
            shared
                .iter()
                .any(|(from, _)| runtime.starts_with(from) || from.starts_with(runtime))
        };
        if !touches(runtime) && !real(runtime).is_ok_and(|it| touches(&it)) {
            return Ok(Vec::new());
        }
        let failed = |why: String| {
            let what = format!("`{}` cannot be kept from the sandbox", shown(runtime));
            Failure::new(Code::Share, what).because(why)
        };
        // It is there before the sandbox is, or another run would make it while this one looks.
        let made = std::fs::create_dir_all(runtime).and_then(|()| runtime.canonicalize());
        let real = made.map_err(|error| failed(error.to_string()))?;
        let hidden = shared.iter().filter_map(|(from, to)| {
            if from.starts_with(&real) {
                return Some(Err(failed("what is shared lies within it".to_owned())));
            }
            let below = real.strip_prefix(from).ok()?;
            let place = GuestPath::try_from(to.join(below));
            Some(place.map_err(|error| failed(error.to_string())))
        });
        hidden.collect()
    }

    /// Refuses to let the sandbox write what decides about sandboxes.
    fn check_precious(&self, mounts: &[Mount]) -> Result<(), Failure> {
        let workspace = self.workspace.iter().map(|it| (&it.dir, it.access));
        let shared = workspace.chain(mounts.iter().map(|it| (&it.from, it.access)));
        // The policy has its own word on `/`.
        let writable = shared.filter(|(dir, access)| {
            *access == Access::ReadWrite && dir.as_path() != Path::new("/")
        });
        for (dir, _) in writable {
            let touches = |own: &Path| {
                let real = real(own).unwrap_or_else(|_| own.to_owned());
                real.starts_with(dir.as_path()) || dir.as_path().starts_with(&real)
            };
            if let Some(own) = self.config.paths.precious().find(|own| touches(own)) {
                let what = format!("`{dir}` holds Bulkhead's own files, in `{}`", shown(own));
                return Err(Failure::new(Code::Share, what)
                    .because(
                        "a sandbox that writes there could give itself more than you allow",
                    )
                    .hint("share a directory below it, or share it read-only with `:ro`"));
            }
        }
        Ok(())
    }
}
