//! Headers that the gateway of a room sets: their values lie where only it reads them.

use std::{
    io,
    path::{Path, PathBuf},
};

use bulkhead_engine::{
    rooms::{Life, Record},
    way_out::Headers,
};
use bulkhead_spec::{SecretBinding, SecretSource};

use super::House;
use crate::{e2b::transforms::Header, private};

/// How the names of headers begin.
const PREFIX: &str = "E2B_HEADER_";

impl House {
    /// Writes the values of headers where only the gateway of the room reads them.
    pub(super) fn lay_headers(
        &self,
        id: &str,
        headers: &[Header],
    ) -> io::Result<Vec<SecretBinding>> {
        lay(&self.headers_of(id), headers)
    }

    /// The same for a room that lives, beside those that it was made with.
    pub(crate) fn lay_live(&self, id: &str, headers: &[Header]) -> io::Result<Headers> {
        let set = lay(&self.headers_of(id).join("live"), headers)?;
        Ok(Headers { prefix: PREFIX.to_owned(), set })
    }

    /// Whether `binding` is a header that was laid for the gateway of a room.
    pub(super) fn is_header(&self, binding: &SecretBinding) -> bool {
        match &binding.source {
            SecretSource::File(file) => file.starts_with(self.base.state.join("headers")),
            SecretSource::Variable(_) | SecretSource::Command(_) => false,
        }
    }

    /// Gives the room of `record`, a copy of another one, headers of its own: those of the other
    /// one go when it goes.
    pub(super) fn copy_headers(&self, record: &mut Record) -> io::Result<()> {
        let dir = self.headers_of(&record.id);
        for binding in &mut record.spec.egress.secrets {
            if !self.is_header(binding) {
                continue;
            }
            if let SecretSource::File(file) = &mut binding.source {
                let own = dir.join(file.file_name().unwrap_or_default());
                private::write(&own, &std::fs::read(&*file)?)?;
                *file = own;
            }
        }
        Ok(())
    }

    fn headers_of(&self, id: &str) -> PathBuf {
        self.base.state.join("headers").join(id)
    }

    /// Forgets what was laid for a room that lives, once its gateway knows it.
    pub(crate) fn forget_live(&self, id: &str) {
        std::fs::remove_dir_all(self.headers_of(id).join("live")).unwrap_or_default();
    }

    pub(super) fn forget_headers(&self, id: &str) {
        // Most rooms have none.
        std::fs::remove_dir_all(self.headers_of(id)).unwrap_or_default();
    }

    /// Forgets the headers of rooms that ended while nobody looked.
    pub(super) fn sweep_headers(&self) {
        let all = std::fs::read_dir(self.base.state.join("headers")).into_iter().flatten();
        for entry in all.flatten() {
            let name = entry.file_name();
            let Some(id) = name.to_str() else { continue };
            let room = self.journal.room(id).ok().flatten();
            if room.is_none_or(|it| it.life != Life::Alive) {
                self.forget_headers(id);
            }
        }
    }
}

/// Writes the values of headers into `dir`.
fn lay(dir: &Path, headers: &[Header]) -> io::Result<Vec<SecretBinding>> {
    let one = |(at, header): (usize, &Header)| {
        let file = dir.join(at.to_string());
        private::write(&file, header.value.expose().as_bytes())?;
        Ok(SecretBinding {
            name: format!("{PREFIX}{at}"),
            source: SecretSource::File(file),
            hosts: vec![header.host.clone()],
            header: Some(header.set.clone()),
        })
    };
    headers.iter().enumerate().map(one).collect()
}
