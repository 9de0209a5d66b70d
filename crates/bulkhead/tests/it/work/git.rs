//! Git: plain, in a worktree, with a submodule.

use super::Work;

/// Makes a repository with one commit out of `dir`, which is seen from the project.
fn repository(work: &Work, dir: &str) {
    work.outside(&format!(
        "git config --global user.name Ada
         git config --global user.email ada@example.org
         git config --global init.defaultBranch main
         git config --global protocol.file.allow always
         git init -q {dir}
         cd {dir}
         echo one > one
         git add one
         git commit -q -m one"
    ));
}

/// What is done all day, and leaves a commit `two` behind.
const ROUND: &str = "git status --short
     echo two > two
     git status --short
     git add two
     git diff --cached --stat
     git commit -q -m two
     echo three >> two
     git diff --stat
     git checkout -q two
     git log --format='%an: %s'";

const SEEN: &str = "?? two\n two | 1 +\n 1 file changed, 1 insertion(+)\n \
     two | 1 +\n 1 file changed, 1 insertion(+)\nAda: two\nAda: one\n";

fn a_round(work: &Work) {
    repository(work, ".");
    assert_eq!(work.inside(ROUND), SEEN);
    assert_eq!(work.outside("git log --format='%an: %s'"), "Ada: two\nAda: one\n");
    assert_eq!(work.outside("git fsck --strict 2>&1; git status --short"), "");
}

#[test]
fn a_repository_is_worked_on() {
    a_round(&Work::new());
}

#[test]
fn a_repository_is_worked_on_by_an_ordinary_user() {
    a_round(&Work::of_ordinary_user());
}

#[test]
fn a_repository_stays_that_of_its_owner() {
    a_round(&Work::on_a_project_of_another());
}

#[test]
fn branches_tags_and_the_stash_work() {
    let work = Work::new();
    repository(&work, ".");
    let seen = work.inside(
        "git switch -q -c side
         echo more >> one
         git stash -q
         git stash pop -q
         git commit -q -a -m more
         git tag -a -m first v1
         git switch -q main
         git merge -q --no-ff -m merged side
         git mv one uno
         git commit -q -m moved
         git rebase -q side
         git gc -q
         git describe --abbrev=0
         git clone -q . copy
         git -C copy log --format=%s",
    );
    assert_eq!(seen, "v1\nmoved\nmore\none\n");
    assert_eq!(work.outside("git log --format=%s; git stash list"), "moved\nmore\none\n");
}

#[test]
fn a_worktree_is_worked_on_though_its_repository_is_elsewhere() {
    let work = Work::new();
    repository(&work, "../main");
    work.outside("rmdir .git; git -C ../main worktree add -q -b side \"$PWD\"");
    assert_eq!(work.outside("cat .git"), "gitdir: [HOST]/main/.git/worktrees/project\n");
    assert_eq!(work.inside(ROUND), SEEN);
    assert_eq!(work.outside("git -C ../main log --format=%s side"), "two\none\n");
    assert_eq!(work.outside("git status --short; git -C ../main status --short"), "");
}

#[test]
fn a_submodule_is_worked_on_from_above_and_from_within() {
    let work = Work::new();
    repository(&work, ".");
    repository(&work, "../library");
    work.outside(
        "git submodule --quiet add ../library library; git commit -q -m 'with a library'",
    );
    assert_eq!(work.inside(&format!("cd library\n{ROUND}")), SEEN);
    let seen = work.inside(
        "git status --short
         git commit -q -a -m 'newer library'
         git submodule status | cut -c1
         git log --format=%s -1",
    );
    assert_eq!(seen, " M library\n \nnewer library\n");
    assert_eq!(work.outside("git -C library log --format=%s"), "two\none\n");
    assert_eq!(work.outside("git status --short; git submodule status | cut -c1"), " \n");
}
