//! Files that the host's user would run later stay as they are.

mod tree;

use std::{fs, os::unix::fs::symlink, path::Path};

use bulkhead_backends::Backend;
use bulkhead_policy::WORKSPACE_TRIGGERS;
use libtest_mimic::Failed;

use self::tree::{Tree, git_dir};
use crate::{
    attack::{Attack, Verdict, attacks},
    room::Room,
};

pub(crate) const ATTACKS: &[Attack] = attacks![
    Bites makes_no_trigger_that_is_absent,
    Bites changes_no_trigger_that_is_there,
    Bites moves_no_parent_of_a_trigger,
    Bites makes_no_git_directory,
    Bites changes_no_git_configuration,
    Bites changes_not_where_git_looks,
    Bites changes_no_git_configuration_of_a_worktree,
    Bites changes_no_git_configuration_of_a_submodule,
    CannotBeBuilt a_trigger_that_is_a_link_is_refused,
];

/// Every way to make something else of a path, or to put something in its place.
const SPOIL: &str = r#"
def write(path, text="run me"):
    with open(path, "w") as file:
        file.write(text)

def spoil(path):
    name = path.replace("/", "_")
    ways = [
        lambda: os.makedirs(os.path.dirname(path) or ".", exist_ok=True),
        lambda: write(path),
        lambda: os.makedirs(path, exist_ok=True),
        lambda: write(path + "/run"),
        lambda: os.truncate(path, 0),
        lambda: os.unlink(path),
        lambda: os.rmdir(path),
        lambda: os.rename(path, name + ".away"),
        lambda: write(name + ".new") or os.rename(name + ".new", path),
        lambda: os.mkdir(name + ".dir") or os.rename(name + ".dir", path),
        lambda: write(name + ".swap"),
        lambda: exchange(name + ".swap", path),
        lambda: os.symlink(name + ".swap", path),
        lambda: os.link(name + ".swap", path),
        lambda: os.link(path, name + ".hard"),
        lambda: write(name + ".hard"),
        lambda: write(path),
        lambda: os.chmod(path, 0o777),
        lambda: os.utime(path, (1, 1)),
    ]
    for way in ways:
        works(way)

def exchange(one, other):
    AT_FDCWD, EXCHANGE = -100, 2
    if libc.renameat2(AT_FDCWD, one.encode(), AT_FDCWD, other.encode(), EXCHANGE) == -1:
        raise OSError(ctypes.get_errno(), "exchange")
"#;

/// Has a script do its worst to `paths` of the workspace, and looks whether they are as they were.
fn spoil(room: &Room<'_>, script: &str, paths: &[&str]) -> Result<Verdict, Failed> {
    let before = Tree::read(room.workspace(), paths)?;
    let script = format!("{SPOIL}\n{script}\nsay('done')");
    let said = room.says(&script, paths)?;
    if said.stdout.lines().last() != Some("done") {
        return Err(format!("it was not tried to the end: {said}").into());
    }
    let after = Tree::read(room.workspace(), paths)?;
    Ok(Verdict::broken_if(before.difference(&after)))
}

const EACH: &str = "for path in args:\n    spoil(path)";

/// A protected file that is absent when the sandbox starts (CVE-2026-25725).
fn makes_no_trigger_that_is_absent(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    spoil(&room, EACH, WORKSPACE_TRIGGERS)
}

fn changes_no_trigger_that_is_there(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    let mut paths = WORKSPACE_TRIGGERS.to_vec();
    for trigger in WORKSPACE_TRIGGERS {
        tree::file(&room.workspace().join(trigger))?;
    }
    for dir in [".vscode", ".idea", ".devcontainer"] {
        fs::remove_file(room.workspace().join(dir))?;
    }
    for inside in [".vscode/tasks.json", ".idea/workspace.xml", ".devcontainer/a/b.json"] {
        tree::file(&room.workspace().join(inside))?;
        paths.push(inside);
    }
    spoil(&room, EACH, &paths)
}

/// What lies in a directory that is moved away lies elsewhere, and something else can be put where
/// it was.
fn moves_no_parent_of_a_trigger(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    tree::file(&room.workspace().join(".claude/settings.json"))?;
    tree::file(&room.workspace().join(".claude/notes/a"))?;
    tree::file(&room.workspace().join(".vscode/tasks.json"))?;
    git_dir(&room.workspace().join(".git"))?;
    let script = r#"
for parent in [".claude", ".vscode", ".git", ".git/info", ".git/hooks", os.getcwd()]:
    for way in [
        lambda: os.rename(parent, "away"),
        lambda: os.mkdir("other") or exchange("other", parent),
        lambda: os.rmdir(parent),
    ]:
        works(way)
for path in args:
    spoil(path)
"#;
    let paths = [
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".vscode/tasks.json",
        ".git/config",
        ".git/hooks",
        ".git/info/attributes",
    ];
    spoil(&room, script, &paths)
}

/// A workspace that is no repository must not become one.
fn makes_no_git_directory(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    spoil(&room, EACH, &[".git", ".git/config", ".git/hooks/pre-commit"])
}

const GIT_TRIGGERS: [&str; 8] = [
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/hooks",
    ".git/hooks/pre-commit",
    ".git/hooks/post-checkout",
    ".git/info/attributes",
    ".git/modules/new/config",
];

fn changes_no_git_configuration(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    git_dir(&room.workspace().join(".git"))?;
    // Committing must still work.
    let commits = r#"
write(".git/index", "new index")
os.makedirs(".git/objects/ab", exist_ok=True)
write(".git/objects/ab/cdef", "an object")
write(".git/refs/heads/topic", "0123")
"#;
    spoil(&room, &format!("{commits}\n{EACH}"), &GIT_TRIGGERS)
}

/// The directory itself, exchanged for a file or a link that leads to another one.
fn changes_not_where_git_looks(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    git_dir(&room.workspace().join(".git"))?;
    let script = r#"
os.makedirs("evil/hooks")
write("evil/config", "[core] fsmonitor = ./evil.sh")
write("pointer", "gitdir: evil")
for way in [
    lambda: os.rename(".git", "away"),
    lambda: exchange("evil", ".git"),
    lambda: exchange("pointer", ".git"),
    lambda: os.rename("evil", ".git"),
    lambda: os.symlink("evil", ".git"),
    lambda: os.rename("pointer", ".git"),
]:
    works(way)
"#;
    spoil(&room, script, &[".git/config", ".git/hooks", ".git/commondir"])
}

/// In a worktree `.git` is a file, and the git directory lies outside the workspace.
fn changes_no_git_configuration_of_a_worktree(
    backend: &dyn Backend,
) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    let main = room.outside().join("main/.git");
    git_dir(&main)?;
    let own = main.join("worktrees/topic");
    let pointer = room.workspace().join(".git");
    fs::create_dir_all(&own)?;
    fs::write(own.join("HEAD"), "ref: refs/heads/topic\n")?;
    fs::write(own.join("commondir"), "../..\n")?;
    fs::write(own.join("gitdir"), format!("{}\n", pointer.display()))?;
    fs::write(&pointer, format!("gitdir: {}\n", own.display()))?;
    let outside = ["config", "config.worktree", "commondir", "hooks", "info/attributes"];
    let before = Tree::read(&main, &outside)?;
    let own_before = Tree::read(&own, &["config.worktree", "commondir"])?;
    let script = r#"
main, own = args.pop(), args.pop()
for name in ["config", "config.worktree", "commondir", "hooks", "hooks/pre-commit",
             "info/attributes"]:
    spoil(main + "/" + name)
for name in ["config.worktree", "commondir"]:
    spoil(own + "/" + name)
works(os.rename, own, own + ".away")
works(os.rename, main + "/worktrees", main + "/away")
spoil(".git")
"#;
    let (own_path, main_path) = (own.display().to_string(), main.display().to_string());
    let script = format!("args[:] = [{own_path:?}, {main_path:?}]\n{script}");
    let verdict = spoil(&room, &script, &[".git"])?;
    let after = Tree::read(&main, &outside)?;
    let own_after = Tree::read(&own, &["config.worktree", "commondir"])?;
    let changed = before.difference(&after).or(own_before.difference(&own_after));
    match verdict {
        Verdict::Held => Ok(Verdict::broken_if(changed)),
        Verdict::Broken(_) => Ok(verdict),
    }
}

fn changes_no_git_configuration_of_a_submodule(
    backend: &dyn Backend,
) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    git_dir(&room.workspace().join(".git"))?;
    for name in ["library", "deep/er"] {
        git_dir(&room.workspace().join(".git/modules").join(name))?;
    }
    let paths = [
        ".git/modules/library/config",
        ".git/modules/library/hooks",
        ".git/modules/library/hooks/pre-commit",
        ".git/modules/library/commondir",
        ".git/modules/deep/er/config",
        ".git/modules/deep/er/hooks",
        ".git/modules/another/config",
    ];
    spoil(&room, EACH, &paths)
}

/// Whoever can write where it leads can change it, and it cannot be covered.
fn a_trigger_that_is_a_link_is_refused(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    tree::file(&room.workspace().join("mine/tasks.json"))?;
    room.build()?;
    for trigger in [".vscode", ".git", ".envrc"] {
        let path = room.workspace().join(trigger);
        symlink(Path::new("mine"), &path)?;
        if room.build().is_ok() {
            return Ok(Verdict::Broken(format!("{trigger} is a link")));
        }
        fs::remove_file(&path)?;
    }
    Ok(Verdict::Held)
}
