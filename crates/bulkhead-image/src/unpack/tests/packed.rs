//! Layers, written byte by byte: a library would refuse to write most of them.

/// A tar stream.
pub(crate) struct Packed(Vec<u8>);

impl Packed {
    pub(crate) fn of(entries: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self(entries.into_iter().flatten().collect())
    }

    /// The stream, with its end.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        [self.0.as_slice(), &[0; 1024]].concat()
    }
}

pub(crate) fn file(name: &str, content: &str) -> Vec<u8> {
    entry(name.as_bytes(), b'0', 0o644, b"", content.as_bytes())
}

pub(crate) fn dir(name: &str) -> Vec<u8> {
    entry(name.as_bytes(), b'5', 0o755, b"", b"")
}

pub(crate) fn symlink(name: &str, to: &str) -> Vec<u8> {
    entry(name.as_bytes(), b'2', 0o777, to.as_bytes(), b"")
}

pub(crate) fn hard_link(name: &str, to: &str) -> Vec<u8> {
    entry(name.as_bytes(), b'1', 0o644, to.as_bytes(), b"")
}

/// Extensions for the next entry.
pub(super) fn extended(records: &[(&str, &str)]) -> Vec<u8> {
    let record = |(key, value): &(&str, &str)| {
        let rest = format!(" {key}={value}\n");
        let mut length = rest.len() + 1;
        while length.to_string().len() + rest.len() != length {
            length += 1;
        }
        format!("{length}{rest}")
    };
    let text: String = records.iter().map(record).collect();
    entry(b"extensions", b'x', 0o644, b"", text.as_bytes())
}

/// One entry: its header, its content, and zeros to a whole block.
pub(crate) fn entry(name: &[u8], kind: u8, mode: u32, link: &[u8], content: &[u8]) -> Vec<u8> {
    let mut block = vec![0_u8; 512];
    block[..name.len()].copy_from_slice(name);
    block[100..107].copy_from_slice(format!("{mode:07o}").as_bytes());
    block[108..115].copy_from_slice(b"0000000");
    block[116..123].copy_from_slice(b"0000000");
    block[136..147].copy_from_slice(b"00000000000");
    block[156] = kind;
    block[157..157 + link.len()].copy_from_slice(link);
    block[257..263].copy_from_slice(b"ustar\0");
    block[263..265].copy_from_slice(b"00");
    set_size(&mut block, content.len() as u64);
    block.extend_from_slice(content);
    block.resize(block.len().next_multiple_of(512), 0);
    block
}

/// Says another size than there is.
pub(super) fn set_size(block: &mut [u8], size: u64) {
    block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    block[148..156].fill(b' ');
    let sum: u32 = block[..512].iter().map(|it| u32::from(*it)).sum();
    block[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
    block[154] = 0;
}
