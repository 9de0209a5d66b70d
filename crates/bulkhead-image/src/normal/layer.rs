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
        let path = plain_name(&entry.path_bytes());
        // The root itself is there without being said.
        if path.is_empty() {
            continue;
        }
        let hard = header.entry_type() == EntryType::Link;
        let link = entry.link_name_bytes();
        items.push(Item {
            path,
            link: link.map(|it| if hard { plain_name(&it) } else { it.into_owned() }),
            attributes,
            data: Place { start: entry.raw_file_position(), size: entry.size() },
            header,
        });
    }
    Ok(items)
}

/// A name without the `./` that some archivers put in front of all.
fn plain_name(name: &[u8]) -> Vec<u8> {
    let mut name = name;
    while let Some(rest) = name.strip_prefix(b"./") {
        name = rest;
    }
    if name == b"." { Vec::new() } else { name.to_vec() }
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
    // Only nodes have numbers; what other entries have there may be nothing at all.
    if matches!(old.entry_type(), EntryType::Char | EntryType::Block)
        && let (Some(major), Some(minor)) = (old.device_major()?, old.device_minor()?)
    {
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

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Seek as _};

    use tar::{Archive, Builder, EntryType, Header};

    use super::rewrite;
    use crate::EPOCH;

    /// As mmdebstrap writes it: the root first, all names with `./`, no numbers of devices.
    fn tree(order: [&str; 2], time: u64) -> File {
        let mut out = Builder::new(tempfile::tempfile().unwrap());
        let mut put = |name: &str, kind: EntryType, link: Option<&str>| {
            let mut header = Header::new_ustar();
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(kind);
            header.set_mode(0o755);
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(time);
            header.set_size(0);
            if let Some(link) = link {
                header.set_link_name_literal(link).unwrap();
            }
            header.set_cksum();
            out.append(&header, std::io::empty()).unwrap();
        };
        put("./", EntryType::Directory, None);
        put("./b", EntryType::Link, Some("./z"));
        for name in order {
            put(name, EntryType::Regular, None);
        }
        out.into_inner().unwrap()
    }

    #[test]
    fn order_and_time_leave_no_mark() {
        let write = |order, time| {
            let mut out = tempfile::tempfile().unwrap();
            let digest = rewrite(&mut tree(order, time), &mut out).unwrap();
            out.rewind().unwrap();
            (digest, out)
        };
        let (first, out) = write(["./z", "./a"], EPOCH + 1);
        assert_eq!(first, write(["./a", "./z"], EPOCH + 99).0);
        assert_ne!(first, write(["./a", "./y"], EPOCH + 99).0);
        let mut archive = Archive::new(out);
        let names = archive.entries().unwrap().map(|it| {
            let it = it.unwrap();
            assert_eq!(it.header().mtime().unwrap(), EPOCH);
            let link = it.link_name_bytes().map(|it| String::from_utf8(it.to_vec()).unwrap());
            (String::from_utf8(it.path_bytes().to_vec()).unwrap(), link)
        });
        let names: Vec<_> = names.collect();
        let plain = |it: &str| (it.to_owned(), None);
        assert_eq!(names, [plain("a"), plain("z"), ("b".to_owned(), Some("z".to_owned()))]);
    }
}
