//! One layer, written again.

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write},
};

use sha2::{Digest as _, Sha256};
use tar::{Archive, Builder, EntryType, Header};

use super::{Place, hex};
use crate::EPOCH;

/// Attributes that are part of a file; the other extensions are times and names, which a header
/// says again.
const ATTRIBUTES: &str = "SCHILY.xattr.";

/// One entry of a layer.
struct Item {
    path: Vec<u8>,
    header: Header,
    link: Option<Vec<u8>>,
    attributes: Vec<(String, Vec<u8>)>,
    data: Place,
}

/// Copies a layer, unpacked if it was compressed, and returns its digest.
pub(super) fn plain(saved: &mut File, place: Place, into: &mut File) -> io::Result<String> {
    saved.seek(SeekFrom::Start(place.start))?;
    let mut magic = [0; 2];
    let gzip = saved.read_exact(&mut magic).is_ok() && magic == [0x1f, 0x8b];
    saved.seek(SeekFrom::Start(place.start))?;
    let reader = BufReader::new(Read::take(&mut *saved, place.size));
    let mut out = Hashing::over(into);
    if gzip {
        io::copy(&mut flate2::bufread::MultiGzDecoder::new(reader), &mut out)?;
    } else {
        io::copy(&mut { reader }, &mut out)?;
    }
    out.digest()
}

/// Writes the layer in `plain` again: sorted, no later than the epoch, and returns its digest.
pub(super) fn rewrite(plain: &mut File, into: &mut File) -> io::Result<String> {
    let mut items = items(plain)?;
    // A link comes after what it links to.
    items.sort_by(|a, b| (a.is_link(), &a.path).cmp(&(b.is_link(), &b.path)));
    let mut out = Builder::new(Hashing::over(into));
    for item in &items {
        write(item, plain, &mut out)?;
    }
    out.into_inner()?.digest()
}

impl Item {
    fn is_link(&self) -> bool {
        self.header.entry_type() == EntryType::Link
    }
}

fn items(plain: &mut File) -> io::Result<Vec<Item>> {
    plain.rewind()?;
    let mut items = Vec::new();
    let mut archive = Archive::new(&mut *plain);
    for entry in archive.entries_with_seek()? {
        let mut entry = entry?;
        let mut header = entry.header().clone();
        let mut attributes = Vec::new();
        for extension in entry.pax_extensions()?.into_iter().flatten() {
            let extension = extension?;
            let key = extension.key().unwrap_or_default();
            let number = || extension.value().ok()?.parse::<u64>().ok();
            match key {
                "uid" => number().into_iter().for_each(|it| header.set_uid(it)),
                "gid" => number().into_iter().for_each(|it| header.set_gid(it)),
                key if key.starts_with(ATTRIBUTES) => {
                    attributes.push((key.to_owned(), extension.value_bytes().to_vec()));
                }
                _ => {}
            }
        }
        attributes.sort();
        items.push(Item {
            path: entry.path_bytes().into_owned(),
            link: entry.link_name_bytes().map(std::borrow::Cow::into_owned),
            attributes,
            data: Place { start: entry.raw_file_position(), size: entry.size() },
            header,
        });
    }
    Ok(items)
}

fn write(item: &Item, plain: &mut File, out: &mut Builder<impl Write>) -> io::Result<()> {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
    let mut header = Header::new_gnu();
    let old = &item.header;
    header.set_entry_type(old.entry_type());
    header.set_mode(old.mode()?);
    header.set_uid(old.uid()?);
    header.set_gid(old.gid()?);
    header.set_mtime(old.mtime()?.min(EPOCH));
    if let (Some(major), Some(minor)) = (old.device_major()?, old.device_minor()?) {
        header.set_device_major(major)?;
        header.set_device_minor(minor)?;
    }
    if !item.attributes.is_empty() {
        let pairs =
            item.attributes.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
        out.append_pax_extensions(pairs)?;
    }
    let path = OsStr::from_bytes(&item.path);
    if let Some(link) = &item.link {
        header.set_size(0);
        return out.append_link(&mut header, path, OsStr::from_bytes(link));
    }
    header.set_size(item.data.size);
    plain.seek(SeekFrom::Start(item.data.start))?;
    out.append_data(&mut header, path, Read::take(&mut *plain, item.data.size))
}

/// A file that is written, and the digest of what was.
struct Hashing<'a> {
    file: BufWriter<&'a mut File>,
    hash: Sha256,
}

impl<'a> Hashing<'a> {
    fn over(file: &'a mut File) -> Self {
        Self { file: BufWriter::new(file), hash: Sha256::new() }
    }

    fn digest(mut self) -> io::Result<String> {
        self.file.flush()?;
        Ok(hex(&self.hash.finalize()))
    }
}

impl Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
