//! Repositories of the host, worked on from inside.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{ask::sh, house::House, traces::listing, workspace::succeed};

/// The variables by which git knows who commits, and that its settings are nobody's.
const WHO: [(&str, &str); 6] = [
    ("GIT_AUTHOR_NAME", "A"),
    ("GIT_AUTHOR_EMAIL", "a@example.invalid"),
    ("GIT_COMMITTER_NAME", "A"),
    ("GIT_COMMITTER_EMAIL", "a@example.invalid"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
];

/// What git says on the host.
#[expect(clippy::disallowed_methods, reason = "the host's own git makes what is worked on")]
fn git(dir: &Path, arguments: &str) -> String {
    let output = Command::new("git")
        .args(["-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"])
        .args(arguments.split(' '))
        .current_dir(dir)
        .envs(WHO)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert!(output.status.success(), "git {arguments}: {}", text(output.stderr));
    text(output.stdout)
}

/// A repository at `dir` with one commit.
fn repository(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    git(dir, "init -q");
    fs::write(dir.join("file"), "one\n").unwrap();
    git(dir, "add file");
    git(dir, "commit -q -m first");
}

/// A whole day's work with git; says what it saw.
const WORK: &str = "set -e
    git status --porcelain
    echo two >> file; echo new > added
    git diff --stat | tail -n 1
    git add file added
    git status --porcelain
    git commit -q -m second
    git log --format=%s
    git diff HEAD~1 --name-only
    git stash list; git branch side; git checkout -q side; git checkout -q -
    git gc -q; git status --porcelain";

const SAW: &str = " 1 file changed, 1 insertion(+)
A  added
M  file
second
first
added
file
";

/// Works in the repository `dir` from inside, and looks at the commit from outside.
async fn works(house: &House, dir: &Path) {
    let names: Vec<PathBuf> = listing(dir).into_keys().collect();
    let ask = sh(WORK).on(dir).with(|it| {
        it.exec.env.extend(WHO.map(|(name, value)| (name.into(), value.into())));
    });
    assert_eq!(house.says(ask).await, SAW);
    assert_eq!(git(dir, "log --format=%s"), "second\nfirst\n");
    assert_eq!(git(dir, "status --porcelain"), "");
    git(dir, "fsck --strict");
    // Only git's own files are new: nothing of ours is left.
    let new: Vec<PathBuf> = listing(dir).into_keys().filter(|it| !names.contains(it)).collect();
    let git_own = |path: &PathBuf| {
        let inside = path.strip_prefix(dir).unwrap();
        inside == Path::new("added") || inside.starts_with(".git")
    };
    assert!(new.iter().all(git_own), "{new:?}");
    no_trigger_is_new(&new);
}

fn no_trigger_is_new(new: &[PathBuf]) {
    let ours = |path: &PathBuf| {
        ["hooks", "config", "config.worktree", "commondir", "attributes"]
            .iter()
            .any(|it| path.ends_with(it))
    };
    assert!(!new.iter().any(ours), "{new:?}");
}

#[tokio::test]
async fn git_works_in_a_repository() {
    let house = House::new();
    let dir = house.workspace();
    repository(&dir);
    works(&house, &dir).await;
}

#[tokio::test]
async fn git_works_in_a_worktree() {
    let house = House::new();
    let main = house.path().join("main");
    repository(&main);
    let work = house.workspace().join("tree");
    git(&main, &format!("worktree add -q {}", work.display()));
    let before = listing(&main.join(".git"));
    works(&house, &work).await;
    let mut new: Vec<PathBuf> = listing(&main.join(".git")).into_keys().collect();
    new.retain(|it| !before.contains_key(it));
    no_trigger_is_new(&new);
    assert_eq!(git(&main, "log --format=%s"), "first\n");
}

/// A repository at `work` with a submodule at `sub`.
fn with_submodule(house: &House) -> PathBuf {
    let other = house.path().join("other");
    repository(&other);
    let work = house.workspace();
    repository(&work);
    git(&work, &format!("submodule --quiet add {} sub", other.display()));
    git(&work, "commit -q --amend -m first");
    work
}

#[tokio::test]
async fn git_works_in_a_repository_with_a_submodule() {
    let house = House::new();
    let work = with_submodule(&house);
    works(&house, &work).await;
}

#[tokio::test]
async fn git_works_in_a_submodule_of_the_workspace() {
    let house = House::new();
    let work = with_submodule(&house);
    let script = "set -e; cd sub; git status --porcelain; echo x > more; git add more
        git commit -q -m inside; git log --format=%s; cd ..; git status --porcelain
        git add sub; git commit -q -m bumped; git submodule status | cut -c1";
    let ask = sh(script).on(&work).with(|it| {
        it.exec.env.extend(WHO.map(|(name, value)| (name.into(), value.into())));
    });
    assert_eq!(house.says(ask).await, "inside\nfirst\n M sub\n \n");
    assert_eq!(git(&work.join("sub"), "log --format=%s"), "inside\nfirst\n");
    assert_eq!(git(&work, "status --porcelain"), "");
}

#[tokio::test]
async fn git_works_where_the_workspace_is_a_submodule() {
    let house = House::new();
    let work = with_submodule(&house);
    works(&house, &work.join("sub")).await;
}

/// Ways to have the host's git run something.
const ATTACKS: [&str; 18] = [
    "echo x > .git/hooks/post-checkout",
    "mkdir -p .git/hooks && echo x > .git/hooks/x",
    "mv .git/hooks .git/old",
    "rm -rf .git/hooks && mkdir .git/hooks",
    "echo x >> .git/config",
    "rm -f .git/config",
    "git config core.fsmonitor /tmp/x",
    "git config --worktree core.fsmonitor /tmp/x",
    "mv .git/config .git/x",
    "echo x > .git/x && mv .git/x .git/config",
    "echo x > .git/config.worktree",
    "echo x > .git/commondir",
    "rm -f .git/commondir && echo /tmp > .git/commondir",
    "echo /tmp > .git/x && mv -f .git/x .git/commondir",
    "mv .git .old",
    "rm -rf .git/info && mkdir .git/info && echo x > .git/info/attributes",
    "echo x > .git/info/attributes",
    "mv .git/info .git/old",
];

/// Attacks `dir` from inside; nothing that git obeys may change.
async fn withstands(house: &House, dir: &Path) {
    let before = listing(dir);
    assert_eq!(succeed(house, dir, &ATTACKS).await, Vec::<String>::new());
    let after = listing(dir);
    let changed = |path: &&PathBuf| before.get(*path) != after.get(*path);
    let changed: Vec<_> = before.keys().chain(after.keys()).filter(changed).collect();
    let harmless =
        |path: &PathBuf| [".git/x", ".git/info/exclude"].iter().any(|it| path.ends_with(it));
    let changed: Vec<_> = changed.into_iter().filter(|it| !harmless(it)).collect();
    assert!(changed.is_empty(), "{changed:?}");
}

#[tokio::test]
async fn nothing_that_git_runs_can_be_planted_in_a_repository() {
    let house = House::new();
    repository(&house.workspace());
    withstands(&house, &house.workspace()).await;
}

#[tokio::test]
async fn nothing_that_git_runs_can_be_planted_in_a_bare_bones_repository() {
    let house = House::new();
    let work = house.workspace();
    repository(&work);
    fs::remove_dir_all(work.join(".git/hooks")).unwrap();
    fs::remove_dir_all(work.join(".git/info")).unwrap();
    withstands(&house, &work).await;
}

#[tokio::test]
async fn nothing_that_git_runs_can_be_planted_in_a_submodule() {
    let house = House::new();
    let work = with_submodule(&house);
    let before = listing(&work);
    let attempts = [
        "echo x > .git/modules/sub/hooks/post-commit",
        "echo x >> .git/modules/sub/config",
        "echo /tmp > .git/modules/sub/commondir",
        "echo x > .git/modules/sub/info/attributes",
        "mv .git/modules .git/x",
        "mv .git/modules/sub .git/modules/x",
        "mkdir .git/modules/new",
        "cd sub && git config core.fsmonitor /tmp/x",
    ];
    assert_eq!(succeed(&house, &work, &attempts).await, Vec::<String>::new());
    assert_eq!(listing(&work), before);
}

#[tokio::test]
async fn nothing_that_git_runs_can_be_planted_from_a_worktree() {
    let house = House::new();
    let main = house.path().join("main");
    repository(&main);
    let work = house.workspace().join("tree");
    git(&main, &format!("worktree add -q {}", work.display()));
    let before = (listing(&main), listing(&work));
    let dir = main.join(".git");
    let own = dir.join("worktrees/tree");
    let attempts = [
        format!("echo x > {}/hooks/post-commit", dir.display()),
        format!("echo x >> {}/config", dir.display()),
        format!("echo /tmp > {}/commondir", dir.display()),
        format!("echo /tmp > {}/commondir", own.display()),
        format!("echo /tmp > {}/gitdir", own.display()),
        format!("echo x > {}/config.worktree", own.display()),
        format!("mv {0} {0}x", own.display()),
        format!("mkdir {}/worktrees/new", dir.display()),
        format!("echo x > {}/file; false", main.display()),
        "echo gitdir: /tmp > .git".to_owned(),
        "rm .git".to_owned(),
        "git config core.fsmonitor /tmp/x".to_owned(),
    ];
    let attempts: Vec<&str> = attempts.iter().map(String::as_str).collect();
    assert_eq!(succeed(&house, &work, &attempts).await, Vec::<String>::new());
    assert_eq!((listing(&main), listing(&work)), before);
}

#[tokio::test]
async fn a_pointer_alone_opens_no_other_repository() {
    let house = House::new();
    let other = house.path().join("other");
    repository(&other);
    let work = house.workspace();
    fs::write(work.join(".git"), format!("gitdir: {}/.git\n", other.display())).unwrap();
    let script = format!("ls -A {} 2>/dev/null | wc -l", other.display());
    assert_eq!(house.says(sh(&script).on(&work)).await, "0\n");
}
