//! Headers that the gateway of a room sets: their values lie where only it reads them.

use std::{io, path::PathBuf};

use bulkhead_spec::{SecretBinding, SecretSource};

use super::House;
use crate::{e2b::transforms::Header, private};

impl House {
    /// Writes the values of headers where only the gateway of the room reads them.
    pub(super) fn lay_headers(
        &self,
        id: &str,
        headers: &[Header],
    ) -> io::Result<Vec<SecretBinding>> {
        let dir = self.headers_of(id);
        let lay = |(at, header): (usize, &Header)| {
            let file = dir.join(at.to_string());
            private::write(&file, header.value.expose().as_bytes())?;
            Ok(SecretBinding {
                name: format!("HEADER_{at}"),
                source: SecretSource::File(file),
                hosts: vec![header.host.clone()],
                header: Some(header.set.clone()),
            })
        };
        headers.iter().enumerate().map(lay).collect()
    }

    fn headers_of(&self, id: &str) -> PathBuf {
        self.base.state.join("headers").join(id)
    }

    pub(super) fn forget_headers(&self, id: &str) {
        // Most rooms have none.
        std::fs::remove_dir_all(self.headers_of(id)).unwrap_or_default();
    }

    /// Forgets the headers of rooms that ended while nobody looked.
    pub(super) fn sweep_headers(&self) {
        let all = std::fs::read_dir(self.base.state.join("headers")).into_iter().flatten();
        for entry in all.flatten() {
            if let Some(id) = entry.file_name().to_str().filter(|it| self.tenant(it).is_none())
            {
                self.forget_headers(id);
            }
        }
    }
}
