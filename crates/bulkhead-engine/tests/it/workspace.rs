//! A live workspace: what can be changed in it from inside, and what cannot.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use bulkhead_spec::{Access, EnvFiles, Outcome};

use crate::{
    ask::sh,
    house::{House, text},
    traces::listing,
};

/// Those of `attempts` that succeed in the workspace, a shell command each.
pub(crate) async fn succeed(house: &House, dir: &Path, attempts: &[&str]) -> Vec<String> {
    let mut script = String::new();
    for attempt in attempts {
        let command = format!("if ({attempt}) >/dev/null 2>&1; then echo '{attempt}'; fi\n");
        script.push_str(&command);
    }
    let said = house.says(sh(&script).on(dir)).await;
    said.lines().map(str::to_owned).collect()
}

const NONE: [String; 0] = [];

#[tokio::test]
async fn what_is_made_inside_is_there_outside_and_belongs_to_the_caller() {
    let house = House::new();
    let work = house.workspace();
    fs::write(work.join("given"), "old\n").unwrap();
    let script = "echo new >> given; mkdir -p a/b; echo x > a/b/made; ln -s given link; pwd";
    assert_eq!(house.says(sh(script).on(&work)).await, format!("{}\n", work.display()));
    assert_eq!(fs::read_to_string(work.join("given")).unwrap(), "old\nnew\n");
    assert_eq!(fs::read_link(work.join("link")).unwrap(), Path::new("given"));
    let us = fs::metadata(&work).unwrap();
    for made in ["given", "a", "a/b", "a/b/made"] {
        let made = fs::metadata(work.join(made)).unwrap();
        assert_eq!((made.uid(), made.gid()), (us.uid(), us.gid()));
    }
}

#[tokio::test]
async fn what_the_host_would_run_later_cannot_be_made() {
    let house = House::new();
    let work = house.workspace();
    let before = listing(&work);
    let attempts = [
        ": > .envrc",
        ": > .mcp.json",
        "mkdir .vscode",
        ": > .vscode/tasks.json",
        "ln -s /tmp .vscode",
        "rmdir .vscode && mkdir .vscode",
        "mv .vscode old",
        "mkdir -p .idea && : > .idea/x",
        "mkdir -p .claude && : > .claude/settings.json",
        "mkdir -p .claude && mv .claude old && mkdir .claude && : > .claude/settings.json",
        "mkdir -p .bulkhead && : > .bulkhead/config.toml",
        "mkdir -p .devcontainer && : > .devcontainer/x",
        "mkdir -p .git/hooks && : > .git/hooks/x",
        ": > .git",
        "git init",
        "mkdir x && mv x .git",
        "echo x > x && mv -f x .envrc",
        "echo x > y && ln y .mcp.json",
    ];
    assert_eq!(succeed(&house, &work, &attempts).await, NONE);
    for name in ["x", "y"] {
        let left = work.join(name);
        fs::remove_dir(&left).or_else(|_| fs::remove_file(&left)).unwrap();
    }
    assert_eq!(listing(&work), before);
}

#[tokio::test]
async fn what_the_host_would_run_later_cannot_be_changed() {
    let house = House::new();
    let work = house.workspace();
    fs::create_dir_all(work.join(".vscode")).unwrap();
    fs::create_dir_all(work.join(".claude")).unwrap();
    for (name, content) in [
        (".vscode/tasks.json", "{}"),
        (".claude/settings.json", "{}"),
        (".envrc", "export A=1"),
        (".mcp.json", "{}"),
    ] {
        fs::write(work.join(name), content).unwrap();
    }
    let before = listing(&work);
    let attempts = [
        "echo x > .vscode/tasks.json",
        "echo x > .vscode/launch.json",
        "rm .vscode/tasks.json",
        "rm -rf .vscode && mkdir .vscode",
        "mv .vscode away",
        "mv .claude away",
        "rm -rf .claude",
        "echo x > .claude/settings.json",
        "echo x > .claude/settings.local.json",
        "echo x >> .envrc",
        "rm .envrc",
        "mv .envrc x",
        "ln .envrc x",
        "chmod 777 .mcp.json",
        "touch .mcp.json",
        "truncate -s 0 .mcp.json",
    ];
    assert_eq!(succeed(&house, &work, &attempts).await, NONE);
    assert_eq!(listing(&work), before);
    // The rest of a directory of which one file is protected can be used.
    assert_eq!(succeed(&house, &work, &["echo x > .claude/notes"]).await.len(), 1);
}

#[tokio::test]
async fn what_the_caller_spares_is_as_any_other() {
    let house = House::new();
    let work = house.workspace();
    let ask = sh("mkdir .vscode && echo x > .vscode/x && echo y > .envrc; true").on(&work);
    let ask = ask.with(|it| {
        it.spec.workspace.as_mut().unwrap().unprotected = vec![".vscode".to_owned()];
    });
    house.says(ask).await;
    assert_eq!(fs::read_to_string(work.join(".vscode/x")).unwrap(), "x\n");
    assert!(!work.join(".envrc").exists());
}

#[tokio::test]
async fn files_that_hold_secrets_look_empty_and_can_be_shown() {
    let house = House::new();
    let work = house.workspace();
    fs::create_dir(work.join("sub")).unwrap();
    for name in [".env", ".env.local", "sub/.env", ".env.example"] {
        fs::write(work.join(name), format!("KEY={name}\n")).unwrap();
    }
    let before = listing(&work);
    let script = "cat .env .env.local sub/.env .env.example; (echo x > .env) 2>&-; :";
    assert_eq!(house.says(sh(script).on(&work)).await, "KEY=.env.example\n");
    assert_eq!(listing(&work), before);
    let shown = sh("cat .env sub/.env").on(&work).with(|it| {
        it.spec.workspace.as_mut().unwrap().env_files = EnvFiles::Shown;
    });
    assert_eq!(house.says(shown).await, "KEY=.env\nKEY=sub/.env\n");
}

async fn run_with(house: &House, access: Access, script: &str) -> Outcome {
    let ask = sh(script).on(&house.workspace()).with(|it| {
        it.spec.workspace.as_mut().unwrap().access = access;
    });
    house.run(ask).await.unwrap()
}

#[tokio::test]
async fn a_workspace_that_is_only_read_stays_as_it_is() {
    let house = House::new();
    fs::write(house.workspace().join("given"), "old\n").unwrap();
    let before = listing(&house.workspace());
    let script = "cat given; echo x > given; echo y > made; rm given; mkdir .git; true";
    let outcome = run_with(&house, Access::ReadOnly, script).await;
    assert_eq!(text(&outcome.stdout), "old\n");
    assert_eq!(listing(&house.workspace()), before);
}

#[tokio::test]
async fn changes_to_a_private_workspace_are_seen_inside_only() {
    let house = House::new();
    fs::write(house.workspace().join("given"), "old\n").unwrap();
    let before = listing(&house.workspace());
    let script = "echo new > given && mkdir -p a && echo x > a/made && cat given a/made";
    let outcome = run_with(&house, Access::Private, script).await;
    assert_eq!(text(&outcome.stdout), "new\nx\n", "{}", text(&outcome.stderr));
    assert_eq!(listing(&house.workspace()), before);
}

#[tokio::test]
async fn a_workspace_that_nobody_may_write_needs_no_protection() {
    let house = House::new();
    let work = house.workspace();
    fs::write(work.join("given"), "old\n").unwrap();
    fs::set_permissions(&work, fs::Permissions::from_mode(0o555)).unwrap();
    let before = listing(&work);
    assert_eq!(house.says(sh("cat given").on(&work)).await, "old\n");
    assert_eq!(listing(&work), before);
    fs::set_permissions(&work, fs::Permissions::from_mode(0o755)).unwrap();
}
