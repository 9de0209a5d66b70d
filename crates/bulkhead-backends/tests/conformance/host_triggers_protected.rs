//! Files that the host's user would run later stay as they are.

mod tree;

use std::{fs, os::unix::fs::symlink, path::Path};

use bulkhead_backends::Backend;
use bulkhead_policy::{HOME_TRIGGERS, WORKSPACE_TRIGGERS};
use libtest_mimic::Failed;

use self::tree::{Tree, git_dir};
use crate::{
    attack::{Attack, Verdict, attacks},
    room::Room,
};

pub(crate) const ATTACKS: &[Attack] = attacks![
    Bites makes_no_trigger_that_is_absent,
    Bites makes_no_shell_file_in_a_home,
    Bites changes_no_trigger_that_is_there,
    Bites moves_no_parent_of_a_trigger,
    Bites makes_no_git_directory,
    Bites changes_no_git_configuration,
    Bites changes_not_where_git_looks,
    Bites changes_no_git_configuration_of_a_worktree,
    Bites changes_no_git_configuration_of_a_submodule,
    Bites changes_not_where_git_looks_for_a_submodule,
    Bites changes_not_where_other_worktrees_look,
    Bites the_last_sandbox_of_several_still_protects,
    CannotBeBuilt a_trigger_that_is_a_link_is_refused,
    CannotBeBuilt several_sandboxes_leave_nothing_behind,
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

/// Shells run them, but only in a home directory.
fn makes_no_shell_file_in_a_home(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let mut room = Room::new(backend)?;
    room.spec.home = Some(room.workspace().to_owned().try_into()?);
    spoil(&room, EACH, HOME_TRIGGERS)
}

fn changes_no_trigger_that_is_there(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    let mut paths = [WORKSPACE_TRIGGERS, HOME_TRIGGERS].concat();
    for trigger in &paths {
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
    let own = tree::worktree(&main, "topic", room.workspace())?;
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

/// `git status` in a repository looks into its submodules, by way of the file that says where the
/// git directory of each is.
fn changes_not_where_git_looks_for_a_submodule(
    backend: &dyn Backend,
) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    let module = room.workspace().join(".git/modules/library");
    git_dir(&room.workspace().join(".git"))?;
    git_dir(&module)?;
    fs::write(module.join("config"), "[core]\n\tworktree = ../../../deep/library\n")?;
    tree::file(&room.workspace().join("deep/library/source"))?;
    let pointer = "gitdir: ../../.git/modules/library\n";
    fs::write(room.workspace().join("deep/library/.git"), pointer)?;
    let script = r#"
os.makedirs("evil/hooks")
for way in [lambda: os.rename("deep", "away"), lambda: os.rename("deep/library", "away"),
            lambda: exchange("evil", "deep/library"), lambda: exchange("evil", "deep")]:
    works(way)
works(write, "deep/library/source", "this is allowed")
spoil(args[0])
"#;
    spoil(&room, script, &["deep/library/.git"])
}

/// The git directories of other worktrees lie in the one of this workspace; their users would run
/// what is said there.
fn changes_not_where_other_worktrees_look(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    git_dir(&room.workspace().join(".git"))?;
    tree::worktree(&room.workspace().join(".git"), "other", room.outside())?;
    let paths = [
        ".git/worktrees/other/commondir",
        ".git/worktrees/other/config.worktree",
        ".git/worktrees/other/gitdir",
    ];
    spoil(&room, &format!("works(os.rename, '.git/worktrees', 'away')\n{EACH}"), &paths)
}

/// What keeps a name from being made is shared by all sandboxes of a workspace.
fn the_last_sandbox_of_several_still_protects(
    backend: &dyn Backend,
) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    let mut first = room.enter("say('ready')\nsignal.alarm(20)\nsignal.pause()", &[])?;
    first.hear("ready")?;
    let waits = format!(
        "{SPOIL}\nsay('ready')\nimport time\nend = time.monotonic() + 20\n\
         while not os.path.exists('go') and time.monotonic() < end:\n    time.sleep(0.001)\n\
         {EACH}\nsay('done')"
    );
    let mut last = room.enter(&waits, WORKSPACE_TRIGGERS)?;
    last.hear("ready")?;
    first.kill()?;
    first.abandon();
    fs::write(room.workspace().join("go"), "")?;
    last.hear("done")?;
    last.kill()?;
    last.abandon();
    let none = Tree::read(Path::new("/nonexistent"), &[])?;
    Ok(Verdict::broken_if(none.difference(&Tree::read(room.workspace(), WORKSPACE_TRIGGERS)?)))
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

/// What keeps names from being made is removed by whoever needs it last, also where two workspaces
/// have a part in common.
fn several_sandboxes_leave_nothing_behind(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let (one, other) = (Room::new(backend)?, Room::new(backend)?);
    let main = one.outside().join(".git");
    git_dir(&main)?;
    tree::worktree(&main, "one", one.workspace())?;
    tree::worktree(&main, "other", other.workspace())?;
    let dirs = [one.workspace(), other.workspace(), &main];
    let before = dirs.map(|dir| Tree::read(dir, &["."]));
    let wait = "say('ready')\nsignal.alarm(20)\nsignal.pause()";
    let sandboxes = [one.enter(wait, &[])?, other.enter(wait, &[])?, one.enter(wait, &[])?];
    for inside in sandboxes {
        inside.hear("ready")?;
        inside.abandon();
    }
    for (before, dir) in before.into_iter().zip(dirs) {
        if let Some(left) = before?.difference(&Tree::read(dir, &["."])?) {
            return Ok(Verdict::Broken(left));
        }
    }
    Ok(Verdict::Held)
}
