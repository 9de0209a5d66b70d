//! Into a room.

use std::{fs, io, os::unix::ffi::OsStrExt as _, path::Path};

use bulkhead_engine::rooms::{
    Client, ClientError, Unpoured, Upload,
    tree::{FileError, Kind, Put, Sent, send},
};
use bulkhead_spec::escape_bytes;
use tokio::io::{AsyncReadExt as _, DuplexStream};

use super::{
    about, look, on_host,
    place::{Inside, join, name},
    progress::Bar,
    tell_copied, tell_skipped,
};
use crate::{
    codes::Code, commands::rooms::of_client, console::Passage, failure::Failure,
    printer::Printer,
};

/// As much as is on its way at once.
const CHUNK: usize = 64 << 10;

/// Writes what comes on stdin to a file.
pub(super) async fn from_stdin(client: &Client, inside: &Inside) -> Result<(), Failure> {
    let path = inside.whole(client).await?;
    let refused = |error| about(&inside.path, &error);
    let upload = client.write(&path, Put::Replace, None).await.map_err(refused)?;
    let unread =
        |error: io::Error| Failure::new(Code::System, "could not read stdin").because(error);
    let stdin = Passage::reading(io::stdin()).map_err(unread)?;
    upload.pour(stdin).await.map_err(|error| match error {
        Unpoured::Source(error) => unread(error),
        Unpoured::Room(error) => refused(error),
    })
}

/// A copy from a path of the host's.
pub(super) struct Copy<'a> {
    pub(super) client: &'a Client,
    pub(super) inside: &'a Inside,
    pub(super) printer: &'a Printer,
}

impl Copy<'_> {
    pub(super) async fn from(&self, path: &Path) -> Result<(), Failure> {
        let metadata = fs::metadata(path).map_err(|error| unread(path).because(error))?;
        if !metadata.is_file() && !metadata.is_dir() {
            return Err(unread(path).because("it is neither a file nor a directory"));
        }
        let top = self.destination(path, &metadata).await?;
        let upload = self.client.unpack(&top).await;
        let upload = upload.map_err(|error| about(&top, &error))?;
        let whole = metadata.is_file().then_some(metadata.len());
        let mut bar = Bar::new(self.printer, whole);
        let (mut ours, theirs) = tokio::io::duplex(CHUNK);
        let sending = async {
            let tell = |sent: &Sent| bar.tell(sent.entries, sent.bytes);
            let sent = send(path, &mut ours, tell).await;
            // Only what is whole ends.
            drop(ours);
            sent
        };
        let (sent, passed) = tokio::join!(sending, pass(theirs, upload));
        drop(bar);
        let whole = match (sent, passed) {
            (Ok(sent), Ok(upload)) => (sent, upload),
            // What the room did not take is the first cause.
            (_, Err(error)) => {
                return Err(of_client(&ClientError::Gone(error)));
            }
            (Err(error), Ok(_)) => return Err(on_host(unread(path).what, &error)),
        };
        let (sent, upload) = whole;
        upload.finish().await.map_err(|error| about(&top, &error))?;
        tell_skipped(&sent.skipped, self.printer);
        tell_copied(sent.entries, sent.bytes, self.printer);
        Ok(())
    }

    /// Where exactly it goes: into a directory that is there, or to the name itself.
    async fn destination(
        &self,
        from: &Path,
        metadata: &fs::Metadata,
    ) -> Result<Vec<u8>, Failure> {
        let path = self.inside.whole(self.client).await?;
        let refuse = |why: String| {
            let what = format!("could not write `{}` in the room", escape_bytes(&path));
            Err(Failure::new(Code::Room, what).because(why))
        };
        let Some(facts) = look(self.client, &path).await? else {
            if path.ends_with(b"/") && !metadata.is_dir() {
                return refuse("there is no such directory".to_owned());
            }
            return Ok(path);
        };
        match facts.kind {
            Kind::Dir => Ok(match name(from.as_os_str().as_bytes()) {
                Some(name) => join(&path, name),
                None => path,
            }),
            Kind::File | Kind::Link if metadata.is_dir() => {
                refuse("a directory cannot replace what is there".to_owned())
            }
            Kind::File | Kind::Link => Ok(path),
            kind @ (Kind::Fifo | Kind::Socket | Kind::Device) => {
                refuse(FileError::NotAFile(kind).to_string())
            }
        }
    }
}

/// Passes a stream on, to its end.
async fn pass(mut from: DuplexStream, mut upload: Upload) -> io::Result<Upload> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = from.read(&mut chunk).await?;
        let Some(bytes @ [_, ..]) = chunk.get(..count) else { return Ok(upload) };
        upload.write(bytes).await?;
    }
}

fn unread(path: &Path) -> Failure {
    let path = escape_bytes(path.as_os_str().as_bytes());
    Failure::new(Code::Argument, format!("cannot read `{path}`"))
}
