//! Whole trees, as tar archives.

use std::{
    io::{self, Read},
    sync::Arc,
};

use axum::{body::Body, extract::State, response::Response};
use bulkhead_engine::rooms::{
    Upload,
    tree::{self, Facts, Item, Kind as FileKind, Record, Records},
};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt as _;
use tar::{Archive, EntryType, Header};
use tokio::{
    io::{AsyncWriteExt as _, DuplexStream},
    net::UnixStream,
    sync::mpsc,
};

use super::{
    super::{
        ask::{Path, Query},
        operation::{Gives, Operation, call},
        problem::{Kind, Problem},
        room::living,
    },
    At, whole,
};
use crate::house::House;

/// The unit of an archive.
const BLOCK: usize = 512;
/// As much as is read at once.
const CHUNK: usize = 32 << 10;
/// What an archive is.
const FORM: &str = "application/x-tar";

/// `GET …/tree`
pub(super) fn down_operation() -> Operation {
    call(
        &Method::GET,
        "/v1/sandboxes/{id}/tree",
        ("downloadTree", "A file or a directory with all that is in it, as a tar archive"),
        down,
    )
    .query::<At>()
    .answers(200, Gives::Bytes(FORM))
}

/// `PUT …/tree`
pub(super) fn up_operation() -> Operation {
    call(
        &Method::PUT,
        "/v1/sandboxes/{id}/tree",
        ("uploadTree", "Unpack a tar archive into a directory, which is made if it is missing"),
        up,
    )
    .query::<At>()
    .takes_bytes(FORM)
    .gives_nothing()
}

async fn down(
    State(house): State<Arc<House>>,
    Path(id): Path<String>,
    Query(asked): Query<At>,
) -> Result<Response, Problem> {
    let (_, client) = living(&house, &id)?;
    let path = whole(&client, &asked.path).await?;
    let download = client.pack(&path).await?;
    let records = Records::new(download.into_stream());
    let packing = Packing { records, left: 0, state: Progress::Going };
    let blocks = stream::unfold(packing, async |mut packing| {
        let block = packing.next().await?;
        Some((block, packing))
    });
    let mut response = Response::new(Body::from_stream(blocks));
    let form = HeaderValue::from_static(FORM);
    response.headers_mut().insert(header::CONTENT_TYPE, form);
    Ok(response)
}

/// A tree that becomes an archive.
struct Packing {
    records: Records<DuplexStream>,
    /// How many bytes the head of the file that is being sent has promised, and are not sent.
    left: u64,
    state: Progress,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Going,
    /// A file is being sent that had so many bytes.
    Inside(u64),
    Over,
}

impl Packing {
    /// The next bytes of the archive. A tree that breaks off breaks the archive off.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if self.state == Progress::Over {
                return None;
            }
            let item = match self.records.next().await {
                Ok(Some(item)) => item,
                Ok(None) => return Some(self.broken("the tree broke off")),
                Err(error) => return Some(self.broken(&error.to_string())),
            };
            match item {
                Item::Record(Record::Entry { path, facts }) => {
                    if facts.kind == FileKind::File {
                        (self.left, self.state) = (facts.size, Progress::Inside(facts.size));
                    }
                    match head(&path, &facts) {
                        Ok(head) if head.is_empty() => {}
                        Ok(head) => return Some(Ok(head.into())),
                        Err(error) => return Some(self.broken(&error.to_string())),
                    }
                }
                Item::Bytes(mut bytes) => {
                    // One that grew meanwhile is sent as it was.
                    let most = usize::try_from(self.left).unwrap_or(usize::MAX);
                    bytes.truncate(most);
                    self.left -= u64::try_from(bytes.len()).unwrap_or(self.left);
                    if !bytes.is_empty() {
                        return Some(Ok(bytes.into()));
                    }
                }
                Item::Record(Record::FileEnd) => return Some(self.filled()),
                Item::Record(Record::End) => {
                    self.state = Progress::Over;
                    return Some(Ok(vec![0; 2 * BLOCK].into()));
                }
                Item::Record(Record::Skipped { .. })
                    if matches!(self.state, Progress::Inside(_)) =>
                {
                    return Some(self.broken("a file could not be read to its end"));
                }
                Item::Record(
                    Record::Skipped { .. } | Record::Changed { .. } | Record::Overflow,
                ) => {}
            }
        }
    }

    /// What is missing to the size that was promised, and to a whole block.
    fn filled(&mut self) -> io::Result<Bytes> {
        let Progress::Inside(size) = self.state else { return Ok(Bytes::new()) };
        self.state = Progress::Going;
        // One that shrank meanwhile cannot be told apart in an archive any more.
        if 0 < self.left {
            return self.broken("a file became shorter while it was read");
        }
        let over = usize::try_from(size % 512).unwrap_or(0);
        Ok(vec![0; (BLOCK - over) % BLOCK].into())
    }

    fn broken(&mut self, why: &str) -> io::Result<Bytes> {
        self.state = Progress::Over;
        Err(io::Error::other(why.to_owned()))
    }
}

/// The head of an entry; longer names and targets come in entries of their own before it.
fn head(path: &[u8], facts: &Facts) -> io::Result<Vec<u8>> {
    let kind = match facts.kind {
        FileKind::File => EntryType::Regular,
        FileKind::Dir => EntryType::Directory,
        FileKind::Link => EntryType::Symlink,
        FileKind::Fifo | FileKind::Socket | FileKind::Device => return Ok(Vec::new()),
    };
    let name = match (path.is_empty(), kind) {
        (true, EntryType::Directory) => b"./".to_vec(),
        (true, _) => b"file".to_vec(),
        (false, EntryType::Directory) => [path, b"/"].concat(),
        (false, _) => path.to_vec(),
    };
    let mut out = Vec::new();
    let target = facts.target.clone().unwrap_or_default();
    for (long, kind) in [(&name, EntryType::GNULongName), (&target, EntryType::GNULongLink)] {
        if 100 < long.len() {
            let mut header = plain(kind);
            put(&mut header.as_gnu_mut().ok_or(io::ErrorKind::Other)?.name, b"././@LongLink");
            header.set_size(u64::try_from(long.len() + 1).map_err(io::Error::other)?);
            header.set_cksum();
            out.extend_from_slice(header.as_bytes());
            out.extend_from_slice(long);
            // With the NUL that ends it.
            out.resize((out.len() + 1).next_multiple_of(BLOCK), 0);
        }
    }
    let mut header = plain(kind);
    let fields = header.as_gnu_mut().ok_or(io::ErrorKind::Other)?;
    put(&mut fields.name, &name);
    put(&mut fields.linkname, &target);
    header.set_mode(facts.mode & 0o7777);
    header.set_uid(facts.owner.0.into());
    header.set_gid(facts.owner.1.into());
    header.set_mtime(u64::try_from(facts.modified.0).unwrap_or(0));
    header.set_size(if kind == EntryType::Regular { facts.size } else { 0 });
    header.set_cksum();
    out.extend_from_slice(header.as_bytes());
    Ok(out)
}

fn plain(kind: EntryType) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn put(field: &mut [u8], bytes: &[u8]) {
    for (to, from) in field.iter_mut().zip(bytes) {
        *to = *from;
    }
}

async fn up(
    State(house): State<Arc<House>>,
    Path(id): Path<String>,
    Query(asked): Query<At>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Problem> {
    let form = headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    if form != Some(FORM) {
        return Err(Problem::new(Kind::MediaType, format!("a tree is sent as {FORM}")));
    }
    let (_, client) = living(&house, &id)?;
    let path = whole(&client, &asked.path).await?;
    client.make_dirs(&path, 0o755).await?;
    let upload = client.unpack(&path).await?;
    let system = |error: io::Error| Problem::internal(&error);
    let (ours, theirs) = UnixStream::pair().map_err(system)?;
    let theirs = theirs.into_std().map_err(system)?;
    theirs.set_nonblocking(false).map_err(system)?;
    let (records, sent) = mpsc::channel(4);
    // The archive is read by a thread of its own: it may take as long as its sender does.
    let gone = |_| io::Error::other("the sandbox takes no more");
    let each = move |bytes: Vec<u8>| records.blocking_send(bytes).map_err(gone);
    let reading = tokio::task::spawn_blocking(move || unpack(theirs, each));
    let (given, passed) = tokio::join!(give(ours, body), pass(sent, upload));
    let read = reading.await.map_err(|error| Problem::internal(&error))?;
    given?;
    read.map_err(|error| Problem::malformed(format!("the archive: {error}")))?;
    let upload = passed?;
    upload.finish().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Gives the body to whoever reads the archive; what follows its end is dropped.
async fn give(mut to: UnixStream, mut body: Body) -> Result<(), Problem> {
    let mut taken = true;
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| Problem::malformed(format!("the body broke off: {error}")))?;
        if let Ok(bytes) = frame.into_data() {
            taken = taken && to.write_all(&bytes).await.is_ok();
        }
    }
    to.shutdown().await.unwrap_or_default();
    Ok(())
}

/// Passes records on to the room. Why one was not taken is told when it is finished.
async fn pass(
    mut records: mpsc::Receiver<Vec<u8>>,
    mut upload: Upload,
) -> Result<Upload, Problem> {
    let mut taken = true;
    while let Some(bytes) = records.recv().await {
        taken = taken && upload.write(&bytes).await.is_ok();
    }
    Ok(upload)
}

/// Reads an archive to its end and sends what it holds. Only files, directories and symbolic links
/// are made; anything else, and a name that leads elsewhere, is refused.
fn unpack(
    archive: impl Read,
    mut send: impl FnMut(Vec<u8>) -> io::Result<()>,
) -> io::Result<()> {
    let mut archive = Archive::new(archive);
    let top = Facts {
        kind: FileKind::Dir,
        size: 0,
        mode: 0o755,
        owner: (0, 0),
        modified: (0, 0),
        target: None,
        notes: Vec::new(),
    };
    let mut began = false;
    for entry in archive.entries()? {
        let mut entry = entry?;
        let Some((path, facts)) = read(&entry)? else { continue };
        if !began && !path.is_empty() {
            send(tree::record(&Record::Entry { path: Vec::new(), facts: top.clone() })?)?;
        }
        began = true;
        let is_file = facts.kind == FileKind::File;
        send(tree::record(&Record::Entry { path, facts })?)?;
        if is_file {
            let mut chunk = vec![0; CHUNK];
            loop {
                let count = entry.read(&mut chunk)?;
                if count == 0 {
                    break;
                }
                send(tree::bytes(chunk.get(..count).unwrap_or_default()))?;
            }
            send(tree::record(&Record::FileEnd)?)?;
        }
    }
    if !began {
        send(tree::record(&Record::Entry { path: Vec::new(), facts: top })?)?;
    }
    send(tree::record(&Record::End)?)
}

/// Reads an archive for a fuzzer: what is sent of it is a tree, and not much longer than it.
pub(crate) fn check_archive(bytes: &[u8]) {
    let mut sent = Vec::new();
    let most = 4 * bytes.len() + (64 << 10);
    let read = unpack(bytes, |record| {
        sent.extend(record);
        assert!(sent.len() <= most, "an archive that unpacks to more than it holds");
        Ok(())
    });
    bulkhead_engine::fuzzing::tree(&sent);
    drop(read);
}

/// What an entry is; nothing for one that only describes others.
fn read<R: Read>(entry: &tar::Entry<'_, R>) -> io::Result<Option<(Vec<u8>, Facts)>> {
    let header = entry.header();
    let said = header.entry_type();
    let kinds = [
        (EntryType::Regular, FileKind::File),
        (EntryType::Continuous, FileKind::File),
        (EntryType::Directory, FileKind::Dir),
        (EntryType::Symlink, FileKind::Link),
    ];
    let kind = match kinds.iter().find(|(it, _)| *it == said) {
        Some((_, kind)) => *kind,
        None if said == EntryType::XGlobalHeader => return Ok(None),
        None => {
            let name = bulkhead_spec::escape_bytes(&entry.path_bytes());
            let text =
                format!("`{name}` is neither a file nor a directory nor a symbolic link");
            return Err(io::Error::other(text));
        }
    };
    let path = below(&entry.path_bytes())?;
    if path.is_empty() && kind != FileKind::Dir {
        return Err(io::Error::other("a file without a name"));
    }
    let target = entry.link_name_bytes().filter(|_| kind == FileKind::Link);
    let modified = i64::try_from(header.mtime()?).unwrap_or(0);
    let facts = Facts {
        kind,
        size: header.size()?,
        mode: header.mode()? & 0o7777,
        owner: (0, 0),
        modified: (modified, 0),
        target: target.map(std::borrow::Cow::into_owned),
        notes: Vec::new(),
    };
    Ok(Some((path, facts)))
}

/// A name without `.` and double slashes; one that climbs or begins at the root is refused.
fn below(path: &[u8]) -> io::Result<Vec<u8>> {
    let refuse = || {
        let name = bulkhead_spec::escape_bytes(path);
        Err(io::Error::other(format!("`{name}` leads elsewhere")))
    };
    if path.starts_with(b"/") || path.contains(&0) || 4096 < path.len() {
        return refuse();
    }
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|it| *it == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return refuse(),
            part => parts.push(part),
        }
    }
    Ok(parts.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        assert_eq!(below(b"./a//b/").unwrap(), b"a/b");
        assert_eq!(below(b"./").unwrap(), b"");
        for name in [&b"/etc/passwd"[..], b"../x", b"a/../../x", b"a\0b"] {
            assert!(below(name).is_err(), "{name:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_archive_is_unpacked_or_refused(
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..2048),
            name in "[a-z./]{0,120}",
        ) {
            let mut header = plain(EntryType::Regular);
            put(&mut header.as_gnu_mut().unwrap().name, name.as_bytes());
            header.set_size(u64::try_from(bytes.len()).unwrap());
            header.set_cksum();
            let whole = [header.as_bytes(), bytes.as_slice()].concat();
            for archive in [bytes, whole] {
                let mut archive = Archive::new(archive.as_slice());
                for entry in archive.entries().unwrap().map_while(Result::ok) {
                    if let Ok(Some((path, _))) = read(&entry) {
                        let climbs = path.split(|it| *it == b'/').any(|it| it == b"..");
                        proptest::prop_assert!(!climbs && !path.starts_with(b"/"));
                    }
                }
            }
        }
    }

    #[test]
    fn an_archive_of_ours_is_read_by_others_with_its_long_names() {
        let facts = |kind, size| Facts {
            kind,
            size,
            mode: 0o640,
            owner: (1000, 1000),
            modified: (1_700_000_000, 0),
            target: None,
            notes: Vec::new(),
        };
        let long = "d".repeat(90) + "/" + &"f".repeat(90);
        let mut bytes = head(b"", &facts(FileKind::Dir, 0)).unwrap();
        bytes.extend(head(long.as_bytes(), &facts(FileKind::File, 3)).unwrap());
        bytes.extend(b"abc");
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        bytes.extend([0; 2 * BLOCK]);
        let mut archive = Archive::new(bytes.as_slice());
        let seen: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|it| {
                let mut entry = it.unwrap();
                let mut text = String::new();
                entry.read_to_string(&mut text).unwrap();
                (String::from_utf8(entry.path_bytes().into_owned()).unwrap(), text)
            })
            .collect();
        assert_eq!(seen, [("./".to_owned(), String::new()), (long, "abc".to_owned())]);
    }
}
