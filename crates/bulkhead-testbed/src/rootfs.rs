//! The root filesystem of the tests' image: the programs that are tried inside, with the libraries
//! that they need, as they are on this host.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::{IMAGE, Reason, command, find, output};

/// What is started in a sandbox by some test.
const PROGRAMS: [&str; 22] = [
    "python3", "sh", "bash", "cat", "chmod", "cp", "dd", "echo", "env", "false", "head", "id",
    "ls", "mkdir", "rm", "sleep", "stat", "su", "touch", "true", "uname", "unshare",
];

/// What a root filesystem has besides.
const FILES: [&str; 6] = [
    "/etc/passwd",
    "/etc/group",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/ld.so.cache",
    "/usr/lib/os-release",
];

/// Directories that are there and empty, to be mounted on.
const DIRS: [&str; 7] = ["tmp", "proc", "dev", "sys", "run", "var/tmp", "home"];

/// What programs need besides `/usr`, as far as it is there.
const BESIDES: [&str; 12] = [
    "bin",
    "sbin",
    "lib",
    "lib64",
    "etc/passwd",
    "etc/group",
    "etc/nsswitch.conf",
    "etc/ld.so.cache",
    "etc/ssl/certs",
    "etc/alternatives",
    "etc/java-17-openjdk",
    "etc/java-21-openjdk",
];

/// Has [`IMAGE`] made by `docker`, a client of the daemon, if it is not there.
pub(crate) fn furnish(
    docker: &dyn Fn(&[&str]) -> Result<String, Reason>,
) -> Result<(), Reason> {
    if docker(&["image", "inspect", IMAGE]).is_ok() {
        return Ok(());
    }
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let tar = pack(dir.path())?;
    docker(&["import", &tar.display().to_string(), IMAGE]).map(drop)
}

/// Has [`IMAGE`] made without programs: whoever uses it shows a container the host's `/usr`.
pub(crate) fn furnish_without_programs(
    docker: &dyn Fn(&[&str]) -> Result<String, Reason>,
) -> Result<(), Reason> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let there = |it: &&str| Path::new("/").join(it).symlink_metadata().is_ok();
    let files: Vec<String> = BESIDES.into_iter().filter(there).map(str::to_owned).collect();
    let tar = tar(dir.path(), &["usr", "etc/ca-certificates"], &files)?;
    docker(&["import", &tar.display().to_string(), IMAGE]).map(drop)
}

/// Packs it into a tar file in `dir`.
fn pack(dir: &Path) -> Result<PathBuf, Reason> {
    let mut files = BTreeSet::new();
    let programs: Vec<PathBuf> = PROGRAMS.iter().filter_map(|it| find(it)).collect();
    let python = python_library()?;
    let modules = entries(&python.join("lib-dynload"));
    for program in &programs {
        add(program, &mut files);
    }
    // The modules themselves come with the library.
    for path in programs.iter().chain(&modules) {
        for library in libraries(path)? {
            add(&library, &mut files);
        }
    }
    for file in FILES {
        add(Path::new(file), &mut files);
    }
    let top = ["/bin", "/sbin", "/lib", "/lib64"].map(PathBuf::from);
    files.extend(top.into_iter().filter(|it| it.is_symlink()));
    files.insert(python);
    let relative = files.iter().filter_map(|it| it.strip_prefix("/").ok());
    tar(
        dir,
        &["etc/ssl/certs"],
        &relative.map(|it| it.display().to_string()).collect::<Vec<_>>(),
    )
}

/// Packs `files` of this host, and directories that are empty.
///
/// Directories come before what is in them: a daemon of an ordinary user closes those to everybody
/// that it has to make up itself.
fn tar(dir: &Path, more: &[&str], files: &[String]) -> Result<PathBuf, Reason> {
    let above = files.iter().flat_map(|it| Path::new(it).ancestors().skip(1));
    let within = DIRS.iter().chain(more).flat_map(|it| Path::new(it).ancestors());
    let mut dirs: BTreeSet<&Path> = above.chain(within).collect();
    dirs.remove(Path::new(""));
    let empty = dir.join("empty");
    for name in &dirs {
        fs::create_dir_all(empty.join(name)).map_err(|error| error.to_string())?;
    }
    let tar = dir.join("rootfs.tar");
    let mut pack = command("tar")?;
    pack.arg("-cf").arg(&tar).args(["--owner=0", "--group=0", "--numeric-owner"]);
    pack.args(["--exclude=__pycache__", "--exclude=python3*/test", "--exclude=config-3*"]);
    pack.args(["--no-recursion", "-C"]).arg(&empty).args(dirs);
    pack.args(["--recursion", "-C", "/"]).args(files);
    output(&mut pack)?;
    Ok(tar)
}

/// A file, and whatever a link leads to, without links in the directories above.
fn add(path: &Path, files: &mut BTreeSet<PathBuf>) {
    let real = path.parent().and_then(|it| it.canonicalize().ok());
    let (Some(parent), Some(name)) = (real, path.file_name()) else { return };
    let path = parent.join(name);
    if !files.insert(path.clone()) {
        return;
    }
    if let Ok(target) = fs::read_link(&path) {
        add(&parent.join(target), files);
    }
}

/// What the dynamic linker would load for it.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, Reason> {
    let mut ldd = command("ldd")?;
    // A program without libraries is no failure.
    let said = output(ldd.arg(program)).unwrap_or_default();
    let words = said.split_whitespace().filter(|it| it.starts_with('/'));
    Ok(words.map(|it| PathBuf::from(it.trim_end_matches(':'))).collect())
}

fn python_library() -> Result<PathBuf, Reason> {
    let mut python = command("python3")?;
    let said = output(python.args(["-I", "-c", "import os; print(os.__file__)"]))?;
    let dir = Path::new(said.trim()).parent().map(Path::to_owned);
    dir.ok_or_else(|| "python3 does not say where its library is".to_owned())
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|it| it.path()).collect()
}
