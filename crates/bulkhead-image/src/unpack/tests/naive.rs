//! An unpacker as it should not be: it believes every name.

use std::{fs, io::Read as _, os::unix::fs::symlink, path::Path};

use crate::unpack::{Kind, Members};

/// Unpacks what it can; what fails is left out.
pub(super) fn unpack(packed: &[u8], into: &Path) {
    let mut members = Members::new(packed);
    while let Some(member) = members.next().unwrap() {
        let text = String::from_utf8(member.path).unwrap();
        let link = String::from_utf8(member.link).unwrap();
        let path = into.join(text);
        fs::create_dir_all(path.parent().unwrap()).unwrap_or_default();
        match member.kind {
            Kind::Directory => fs::create_dir(&path).unwrap_or_default(),
            Kind::Symlink => symlink(&link, &path).unwrap_or_default(),
            Kind::HardLink => fs::hard_link(into.join(&link), &path).unwrap_or_default(),
            Kind::File => {
                let mut content = Vec::new();
                members.content().read_to_end(&mut content).unwrap();
                fs::write(&path, content).unwrap_or_default();
            }
            Kind::Fifo | Kind::Device | Kind::Unknown => {}
        }
    }
}
