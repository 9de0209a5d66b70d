//! What is asked for can be written down and read back.

use std::{ffi::OsString, os::unix::ffi::OsStringExt as _, time::Duration};

use bulkhead_spec::{
    Access, Bytes, Exec, HostPath, Limits, Mount, Spec, Stdin, Terminal, Workspace,
};

fn word(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

#[test]
fn a_spec_survives_being_written_down() {
    let dir: HostPath = "/work/näme\nwith lines".parse().unwrap();
    let spec = Spec {
        workspace: Some(Workspace {
            dir: dir.clone(),
            access: Access::ReadWrite,
            env_files: bulkhead_spec::EnvFiles::Shown,
            unprotected: vec![".git".to_owned()],
        }),
        mounts: vec![Mount {
            from: dir.clone(),
            to: "/data".parse().unwrap(),
            access: Access::Private,
        }],
        limits: Limits {
            memory: Some(Bytes(123_456_789)),
            cpus: Some("1.5".parse().unwrap()),
            timeout: Some("1m".parse().unwrap()),
            ..Limits::default()
        },
        env: [(word(b"A\xff"), word(b"x\xfey")), (word(b"B"), word("ü".as_bytes()))].into(),
        ..Spec::default()
    };
    let text = serde_json::to_string(&spec).unwrap();
    let back: Spec = serde_json::from_str(&text).unwrap();
    assert_eq!(format!("{back:?}"), format!("{spec:?}"));
    assert!(dir.is_text());
    assert!(!HostPath::try_from(std::path::PathBuf::from(word(b"/a\xff"))).unwrap().is_text());
}

#[test]
fn an_exec_survives_being_written_down() {
    let exec = Exec {
        entry: bulkhead_spec::Entry::Image,
        argv: vec![word(b"sh"), word(b"-c"), word(b"echo \xff\n")],
        dir: Some("/tmp".parse().unwrap()),
        env: [(word(b"K"), word(b"\x80"))].into(),
        timeout: Some("90s".parse().unwrap()),
        grace: Duration::from_millis(1500),
        stdin: Stdin::Piped,
        terminal: Some(Terminal { rows: 24, columns: 80 }),
    };
    let back: Exec = serde_json::from_str(&serde_json::to_string(&exec).unwrap()).unwrap();
    assert_eq!(format!("{back:?}"), format!("{exec:?}"));
}
