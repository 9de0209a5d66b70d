//! Makes the guest: a kernel, a first boot stage and a disk, from the host's own package sources.
//!
//! Invariant: the directory `target/vm/image` is either complete and made from this very source, or
//! rebuilt before anything boots from it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use super::at;
use super::initrd;
use super::recipe::{self, Placed};
use crate::print;
use crate::programs::{command, output, run};
use crate::trouble::{OrTrouble, Trouble};

/// Everything that decides what the image contains; a change in any of it makes a new image.
const INPUTS: &[&str] =
    &[include_str!("recipe.rs"), include_str!("initrd.rs"), include_str!("image.rs")];

/// The size of the guest's disk. It is sparse: what the host pays is what the guest holds.
const DISK_SIZE: &str = "6G";

/// A complete guest.
pub(super) struct Image {
    pub(super) kernel: PathBuf,
    pub(super) initrd: PathBuf,
    pub(super) disk: PathBuf,
}

/// What to do with an image that is there already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reuse {
    IfUnchanged,
    Never,
}

/// The image, made now unless it is there and its inputs are what they were.
pub(super) fn ready(home: &Path, reuse: Reuse) -> Result<Image, Trouble> {
    fs::create_dir_all(home).or_trouble(|| at(home))?;
    let lock_path = home.join("lock");
    let lock = File::create(&lock_path).or_trouble(|| at(&lock_path))?;
    lock.lock().or_trouble(|| at(&lock_path))?;

    let place = home.join("image");
    let stamp = place.join("inputs");
    let inputs = INPUTS.concat();
    let current = fs::read_to_string(&stamp).is_ok_and(|text| text == inputs);
    if !current || reuse == Reuse::Never {
        let started = Instant::now();
        print::progress("building the guest (once, about a minute)");
        let scratch = Scratch::new(home.join("image.new"))?;
        build(&scratch.path)?;
        write(&scratch.path.join("inputs"), inputs.as_bytes())?;
        remove(&place)?;
        fs::rename(&scratch.path, &place).or_trouble(|| at(&place))?;
        print::progress(&format!("built the guest in {:.1?}", started.elapsed()));
    }
    Ok(Image {
        kernel: place.join("vmlinuz"),
        initrd: place.join("initrd"),
        disk: place.join("root.ext4"),
    })
}

/// A directory for a build that is removed unless the build has moved it away.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new(path: PathBuf) -> Result<Self, Trouble> {
        remove(&path)?;
        fs::create_dir(&path).or_trouble(|| at(&path))?;
        Ok(Self { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            print::trouble(&error);
        }
    }
}

fn build(place: &Path) -> Result<(), Trouble> {
    let sources = package_sources()?;
    let kernel = unpack_kernel(place)?;
    place_files(&place.join("placed"))?;
    bootstrap(place, &sources, &kernel)?;
    make_disk(place)?;

    let root = place.join("root");
    write(&place.join("initrd"), &initrd::archive(&root, &kernel)?)?;
    for leftover in ["root", "root.tar", "sources.list", "placed", "kernel"] {
        remove(&place.join(leftover))?;
    }
    Ok(())
}

/// Where the host's own package manager gets Debian from, as lines of a `sources.list`.
fn package_sources() -> Result<Sources, Trouble> {
    let targets = output(command("apt-get").args([
        "indextargets",
        "--format",
        "$(RELEASE) deb $(SITE) $(RELEASE) $(COMPONENT)",
        "Created-By: Packages",
        "Origin: Debian",
    ]))?;
    let entries: Vec<_> = targets.lines().filter_map(|line| line.split_once(' ')).collect();
    // `bookworm`, and not `bookworm-updates` or `bookworm-security`.
    let suite = entries
        .iter()
        .map(|(release, _)| *release)
        .min_by_key(|release| release.len())
        .ok_or(Trouble::new("apt-get knows no source of Debian packages on this host"))?;
    let lines: Vec<_> = entries
        .iter()
        .filter(|(release, _)| release.starts_with(suite))
        .map(|(_, line)| *line)
        .collect();
    let lines = lines.join("\n") + "\n";
    Ok(Sources { suite: suite.to_owned(), lines })
}

struct Sources {
    suite: String,
    lines: String,
}

/// Downloads the kernel's package and takes the kernel out of it. Gives back its version.
fn unpack_kernel(place: &Path) -> Result<String, Trouble> {
    let unpacked = place.join("kernel");
    fs::create_dir(&unpacked).or_trouble(|| at(&unpacked))?;
    let depends =
        output(command("apt-cache").args(["depends", "--important", recipe::KERNEL]))?;
    let package = depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|package| package.starts_with("linux-image-"))
        .ok_or_else(|| Trouble::new(format!("`{}` names no kernel", recipe::KERNEL)))?;
    print::progress(&format!("taking the kernel from {package}"));
    run(command("apt-get")
        .args(["download", "-qq", package])
        .current_dir(&unpacked)
        // It warns that it downloads as the caller, which is what we ask for.
        .stderr(Stdio::null()))?;
    let archive = only_entry(&unpacked)?;
    run(command("dpkg-deb").arg("-x").arg(archive).arg(&unpacked))?;

    let kernel = only_entry(&unpacked.join("lib/modules"))?;
    let version = kernel
        .file_name()
        .map(|it| it.to_string_lossy().into_owned())
        .ok_or_else(|| Trouble::new(format!("`{}` names no kernel", recipe::KERNEL)))?;
    let image = unpacked.join(format!("boot/vmlinuz-{version}"));
    let to = place.join("vmlinuz");
    fs::copy(&image, &to).or_trouble(|| at(&image))?;
    for pruned in recipe::PRUNED_MODULES {
        remove(&kernel.join("kernel").join(pruned))?;
    }
    Ok(version)
}

/// Writes our own files of the guest under `place`.
fn place_files(place: &Path) -> Result<(), Trouble> {
    for placed in recipe::placed() {
        match placed {
            Placed::File { path, text } => {
                let path = place.join(path);
                make_parent(&path)?;
                write(&path, text.as_bytes())?;
            }
            Placed::Link { path, to } => {
                let path = place.join(path);
                make_parent(&path)?;
                symlink(to, &path).or_trouble(|| at(&path))?;
            }
        }
    }
    Ok(())
}

/// Installs the packages, our files and the person into `root.tar`.
fn bootstrap(place: &Path, sources: &Sources, kernel: &str) -> Result<(), Trouble> {
    let list = place.join("sources.list");
    write(&list, sources.lines.as_bytes())?;
    let person = format!(
        r#"chroot "$1" useradd --create-home --uid {} --shell /bin/bash {}"#,
        recipe::TESTER_UID,
        recipe::TESTER
    );
    let index = format!(r#"chroot "$1" /sbin/depmod {kernel}"#);
    print::progress(&format!("installing {} packages", sources.suite));
    run(command("mmdebstrap")
        .current_dir(place)
        .args(["--quiet", "--variant=minbase"])
        .arg(format!("--include={}", recipe::PACKAGES.join(",")))
        // Into `/usr/lib`, since a `/lib` of ours would replace the link that Debian has there.
        .arg("--customize-hook=sync-in kernel/lib /usr/lib")
        .arg("--customize-hook=sync-in placed /")
        .arg(format!("--customize-hook={index}"))
        .arg(format!("--customize-hook={person}"))
        .args([sources.suite.as_str(), "root.tar", "sources.list"]))?;
    Ok(())
}

/// Turns `root.tar` into a disk. Under fakeroot, so that owners survive without being root.
fn make_disk(place: &Path) -> Result<(), Trouble> {
    let script = format!(
        "mkdir root && tar -xf root.tar -C root && truncate -s {DISK_SIZE} root.ext4 && \
         mke2fs -q -t ext4 -E lazy_itable_init=1 -d root root.ext4"
    );
    run(command("fakeroot").current_dir(place).args(["sh", "-c", &script]))?;
    Ok(())
}

fn only_entry(directory: &Path) -> Result<PathBuf, Trouble> {
    fs::read_dir(directory)
        .and_then(|mut entries| entries.next().ok_or(io::ErrorKind::NotFound)?)
        .map(|entry| entry.path())
        .or_trouble(|| at(directory))
}

fn make_parent(path: &Path) -> Result<(), Trouble> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).or_trouble(|| at(parent))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Trouble> {
    fs::write(path, bytes).or_trouble(|| at(path))
}

/// Removes the file or the directory with all that is in it; it may well be gone already.
fn remove(path: &Path) -> Result<(), Trouble> {
    let removed = match fs::symlink_metadata(path) {
        Ok(it) if it.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).or_trouble(|| at(path))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
