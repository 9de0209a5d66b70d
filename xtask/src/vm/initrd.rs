//! The first boot stage: an archive with one shell and the few modules that reach the disk.
//!
//! The stock one would do, but it carries every driver there is and takes longer to unpack than
//! systemd takes to boot.

use std::fs;
use std::path::Path;

use super::at;
use super::recipe;
use crate::trouble::{OrTrouble, Trouble};

/// The archive for the guest whose unpacked root filesystem is `root`.
pub(super) fn archive(root: &Path, kernel: &str) -> Result<Vec<u8>, Trouble> {
    let modules = root.join("usr/lib/modules").join(kernel);
    let listed = modules.join("modules.dep");
    let listing = fs::read_to_string(&listed).or_trouble(|| at(&listed))?;
    let order = load_order(&listing, recipe::EARLY_MODULES)?;

    let mut archive = Archive::default();
    for directory in ["bin", "dev", "modules", "root"] {
        archive.push(directory, DIRECTORY, &[]);
    }
    let busybox =
        read(&root.join("usr/bin/busybox")).or_else(|_| read(&root.join("bin/busybox")))?;
    archive.push("bin/busybox", PROGRAM, &busybox);
    archive.push("bin/sh", LINK, b"busybox");
    for module in &order {
        let name = Path::new(module).file_name().unwrap_or_default();
        let bytes = read(&modules.join(module))?;
        archive.push(&format!("modules/{}", name.display()), FILE, &bytes);
    }
    archive.push("init", PROGRAM, recipe::early_init(&order).as_bytes());
    Ok(archive.finish())
}

fn read(path: &Path) -> Result<Vec<u8>, Trouble> {
    fs::read(path).or_trouble(|| at(path))
}

/// The modules to load, each after those that it needs, from the text of `modules.dep`.
fn load_order(listing: &str, wanted: &[&str]) -> Result<Vec<String>, Trouble> {
    let mut order: Vec<String> = Vec::new();
    for name in wanted {
        let line = listing
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(path, _)| stem(path) == *name);
        let (path, needs) =
            line.ok_or_else(|| Trouble::new(format!("the kernel has no module `{name}`")))?;
        // depmod lists all that is needed, directly or not, the first to load last.
        let needs = needs.split_whitespace().rev();
        for module in needs.chain([path]) {
            if !order.iter().any(|it| it == module) {
                order.push(module.to_owned());
            }
        }
    }
    Ok(order)
}

/// `ext4` of `kernel/fs/ext4/ext4.ko.xz`.
fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split('.').next().unwrap_or(name)
}

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive in the "newc" format of cpio, as the kernel's `initramfs` documentation describes it.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn push(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let entry = self.entries;
        self.entry(name, [entry, mode], content);
    }

    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", [0, 0], &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, [inode, mode]: [u32; 2], content: &[u8]) {
        let links = 1;
        let fields = [
            inode as usize,
            mode as usize,
            0,
            0,
            links,
            0,
            content.len(),
            0,
            0,
            0,
            0,
            name.len() + 1,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        let whole = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(whole, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "\
kernel/fs/ext4/ext4.ko: kernel/lib/crc16.ko kernel/fs/jbd2/jbd2.ko
kernel/drivers/virtio/virtio.ko:
kernel/drivers/virtio/virtio_ring.ko: kernel/drivers/virtio/virtio.ko
kernel/drivers/block/virtio_blk.ko: kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko
";

    #[test]
    fn a_module_loads_once_and_after_what_it_needs() {
        let order = load_order(LISTING, &["virtio_ring", "virtio_blk", "ext4"]).unwrap();
        let names: Vec<_> = order.iter().map(|it| stem(it)).collect();
        assert_eq!(names, ["virtio", "virtio_ring", "virtio_blk", "jbd2", "crc16", "ext4"]);
    }

    #[test]
    fn a_module_that_the_kernel_lacks_is_named() {
        let error = load_order(LISTING, &["9p"]).unwrap_err();
        assert_eq!(error.to_string(), "the kernel has no module `9p`");
    }

    #[test]
    fn an_archive_is_padded_to_words_and_ends_with_its_trailer() {
        let mut archive = Archive::default();
        archive.push("init", PROGRAM, b"hello");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(bytes.get(..6), Some(b"070701".as_slice()));
        assert!(bytes.windows(10).any(|it| it == b"TRAILER!!!"));
        assert_eq!(bytes.get(116..121), Some(b"hello".as_slice()));
    }
}
