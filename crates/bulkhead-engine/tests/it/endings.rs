//! How programs end, and why some do not start.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use bulkhead_engine::{ErrorKind, RunError};
use bulkhead_spec::Ending;

use crate::{
    ask::{Ask, program, sh},
    house::House,
};

#[tokio::test]
async fn a_program_that_exits_has_its_own_code() {
    let house = House::new();
    for code in [0, 1, 3, 126, 137, 255] {
        let outcome = house.run(sh(&format!("exit {code}"))).await.unwrap();
        assert_eq!(outcome.ending, Ending::Exited { code });
        assert_eq!(i32::from(outcome.ending.exit_code()), code);
    }
}

#[tokio::test]
async fn a_program_that_dies_of_a_signal_says_which() {
    let house = House::new();
    for signal in [1, 6, 9, 11, 15] {
        let outcome = house.run(sh(&format!("kill -{signal} $$"))).await.unwrap();
        assert_eq!(outcome.ending, Ending::Signaled { signal });
    }
}

/// The error that keeps `ask` from starting: its kind, its exit code and its words.
async fn refusal(house: &House, ask: Ask) -> (ErrorKind, u8, String) {
    let error: RunError = house.run(ask).await.unwrap_err();
    (error.kind(), error.exit_code(), error.to_string())
}

fn file(house: &House, name: &str, content: &str, mode: u32) -> PathBuf {
    let path = house.workspace().join(name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn call(house: &House, path: &Path) -> Ask {
    program(&[path.to_str().unwrap()]).on(&house.workspace())
}

#[tokio::test]
async fn a_program_that_is_not_there_is_not_found() {
    let house = House::new();
    for name in ["no-such-program", "/usr/bin/no-such-program", "/bin/sh/no-such-program"] {
        let expected =
            (ErrorKind::NotFound, 127, format!("`{name}` was not found in the sandbox"));
        assert_eq!(refusal(&house, program(&[name])).await, expected);
    }
}

#[tokio::test]
async fn what_is_not_executable_cannot_be_run() {
    let house = House::new();
    let plain = file(&house, "plain", "#!/bin/sh\n", 0o644);
    let strange = file(&house, "strange", "\u{7f}ELF?\n", 0o755);
    for path in [plain.as_path(), strange.as_path(), Path::new("/usr")] {
        let words = format!("`{}` cannot be run", path.display());
        let expected = (ErrorKind::NotExecutable, 126, words);
        assert_eq!(refusal(&house, call(&house, path)).await, expected);
    }
}

#[tokio::test]
async fn a_script_whose_interpreter_is_missing_is_not_found() {
    let house = House::new();
    let path = file(&house, "script", "#!/no/such/interpreter\n", 0o755);
    let (kind, code, _) = refusal(&house, call(&house, &path)).await;
    assert_eq!((kind, code), (ErrorKind::NotFound, 127));
}

#[tokio::test]
async fn a_program_is_looked_for_along_its_own_path() {
    let house = House::new();
    let work = house.workspace();
    fs::create_dir_all(work.join("first")).unwrap();
    fs::create_dir_all(work.join("second")).unwrap();
    file(&house, "first/tool", "#!/bin/sh\necho first\n", 0o644);
    file(&house, "second/tool", "#!/bin/sh\necho second\n", 0o755);
    let path = format!("relative:{0}/none:{0}/first:{0}/second:/usr/bin", work.display());
    let ask = program(&["tool"]).on(&work);
    let ask = ask.with(|it| {
        it.exec.env.insert("PATH".into(), path.into());
    });
    assert_eq!(house.says(ask).await, "second\n");
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let house = House::new();
    let ask = sh("pwd").within(Path::new("/no/such/dir"));
    let expected = (ErrorKind::NoDir, 125, "cannot start in `/no/such/dir`".to_owned());
    assert_eq!(refusal(&house, ask).await, expected);
}

#[tokio::test]
async fn a_program_that_did_not_start_leaves_nothing() {
    let house = House::new();
    let before = crate::traces::listing(&house.workspace());
    let ask = program(&["no-such-program"]).on(&house.workspace());
    house.run(ask).await.unwrap_err();
    assert_eq!(crate::traces::listing(&house.workspace()), before);
}
