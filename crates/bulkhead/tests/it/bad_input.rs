//! A host that is not as it should be: a sentence, a hint, an exit code, and nothing left behind.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
    },
    path::Path,
    process::Command,
};

use crate::{host::Host, work::Work};

/// Each C library has its own words for it.
const LOOP: (&str, &str) =
    (r"cause: (Too many levels of symbolic|Symbolic) .*", "cause: [ELOOP]");

#[test]
fn programs_that_cannot_be_run_are_told_apart() {
    let host = Host::new();
    host.write("project/text", "no program");
    let executable = |path: &str, text: &str| {
        let path = host.write(path, text);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    executable("project/garbage", "\x7fELF and no more");
    executable("project/script", "#!/nowhere/sh\n");
    symlink("loop", host.project().join("loop")).unwrap();
    let cases = [
        ("nowhere", 127),
        ("./nowhere", 127),
        ("/nowhere/at/all", 127),
        ("./script", 127),
        ("./text", 126),
        ("./garbage", 126),
        (".", 126),
        ("./text/below", 127),
        ("./loop", 126),
        ("", 125),
    ];
    let mut shown = Vec::new();
    for (program, code) in cases {
        let ran = host.bulkhead(["run", "--", program]);
        assert_eq!(ran.code, Some(code), "`{program}` {ran:?}");
        shown.push(format!("$ bulkhead run -- {program:?}\n{}\n", ran.stderr));
    }
    insta::with_settings!({ filters => [LOOP] }, {
        insta::assert_snapshot!(shown.concat());
    });
}

#[test]
fn a_limit_without_walls_is_refused() {
    let host = Host::new();
    let ran =
        host.bulkhead(["run", "--backend", "none", "--memory", "64m", "--", "touch", "ran"]);
    assert!(!host.project().join("ran").exists());
    insta::assert_snapshot!(ran.shown());
}

/// A root filesystem without anything but a shell.
fn root_filesystem(host: &Host) -> std::path::PathBuf {
    let root = host.path().join("root");
    for dir in ["bin", "elsewhere"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    root
}

#[test]
fn a_root_filesystem_does_not_choose_where_ours_goes() {
    let mut shown = Vec::new();
    for name in ["dev", "proc", "tmp"] {
        let host = Host::new();
        let root = root_filesystem(&host);
        symlink("/elsewhere", root.join(name)).unwrap();
        let ran = host.bulkhead(["run", "--rootfs", "../root", "--", "/bin/true"]);
        assert_eq!(ran.code, Some(125), "{ran:?}");
        assert_eq!(fs::read_dir(root.join("elsewhere")).unwrap().count(), 0);
        shown.push(format!("/{name} -> /elsewhere\n{}\n", ran.stderr));
    }
    insta::with_settings!({ filters => [LOOP] }, {
        insta::assert_snapshot!(shown.concat());
    });
}

/// CVE-2025-31133: a runtime that masks files with the container's own `/dev/null` mounts whatever
/// that leads to.
#[test]
fn links_in_a_root_filesystems_dev_lead_nowhere() {
    let host = Host::new();
    let root = root_filesystem(&host);
    fs::create_dir(root.join("dev")).unwrap();
    host.write("root/elsewhere/file", "untouched");
    for name in ["null", "pts", "shm", "console", "ptmx"] {
        symlink("/elsewhere/file", root.join("dev").join(name)).unwrap();
    }
    // The host's own shell, with all that it needs.
    let shares =
        ["/usr:/usr:ro", "/usr/bin:/bin:ro", "/usr/lib:/lib:ro", "/usr/lib64:/lib64:ro"];
    let shares = shares.iter().filter(|it| Path::new(it.split(':').next().unwrap()).exists());
    let shares = shares.flat_map(|it| ["--mount", it]);
    let script = "echo x > /dev/null; test -c /dev/null; cat /proc/keys /proc/timer_list | wc -c; cat /elsewhere/file";
    let args = ["run", "--rootfs", "../root"].into_iter().chain(shares);
    let ran = host.bulkhead(args.chain(["--", "/bin/sh", "-ec", script]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "0\nuntouched"), "{ran:?}");
}

#[test]
fn a_directory_that_cannot_be_read_is_named() {
    let work = Work::of_ordinary_user();
    let mut shown = Vec::new();
    for mode in ["000", "100", "400"] {
        // Gone into first: later it cannot be.
        let script =
            format!("mkdir d{mode}; cd d{mode}; chmod {mode} .; exec \"$0\" run -- true");
        let ran = work.shell(&script);
        assert_eq!(ran.code, Some(125), "{ran:?}");
        shown.push(format!("mode {mode}\n{}\n", ran.stderr));
    }
    insta::assert_snapshot!(shown.concat());
}

#[test]
fn a_home_that_is_not_named_is_no_trouble_until_it_is_needed() {
    let work = Work::of_ordinary_user();
    let ran = work.shell("unset HOME; \"$0\" run -- sh -c 'cd; pwd; touch x; ls'");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "/home/sandbox\nx\n"), "{ran:?}");
    let ran = work.shell("unset HOME BULKHEAD_HOME; \"$0\" run -- touch ran");
    assert!(!work.host.project().join("ran").exists());
    insta::assert_snapshot!(ran.shown());
}

#[test]
fn a_place_above_the_home_is_not_shared_by_accident_either() {
    let host = Host::new();
    let mut command = host.command(["run", "--", "true"]);
    let ran = host.ended(command.current_dir(host.path()));
    assert_eq!(ran.code, Some(125), "{ran:?}");
    assert!(ran.stderr.starts_with("error: `[HOST]` holds your whole home"), "{ran:?}");
    let mut command = host.command(["run", "--", "true"]);
    let ran = host.ended(command.current_dir("/"));
    assert_eq!(ran.code, Some(125), "{ran:?}");
    let mut command = host.command(["run", "--no-workspace", "--", "ls", "-A"]);
    let ran = host.ended(command.current_dir(host.home()));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
}

#[test]
fn names_that_are_no_text_are_read_made_and_removed() {
    let host = Host::new();
    let names: [&[u8]; 4] = [b"\xff\xfe", b"two\nlines", b"\x1b[31mred", &[b'x'; 255]];
    for name in names {
        fs::write(host.project().join(OsStr::from_bytes(name)), "text").unwrap();
    }
    // A working directory and a workspace of that kind, too.
    let dir = host.project().join(OsStr::from_bytes(b"dir\xff"));
    fs::create_dir(&dir).unwrap();
    let script =
        "cat ../* 2>/dev/null; rm ../*lines; echo more > \"$(printf 'made\\200')\"; pwd";
    for (share, text) in [("..", "texttexttexttext"), (".", "")] {
        let mut command = host.command(["run", "--workspace", share, "--", "sh", "-c", script]);
        let output = command.current_dir(&dir).output().unwrap();
        let said = [text.as_bytes(), dir.as_os_str().as_bytes(), b"\n"].concat();
        assert_eq!(OsStr::from_bytes(&output.stdout), OsStr::from_bytes(&said));
        let made = dir.join(OsStr::from_bytes(b"made\x80"));
        assert_eq!(fs::read_to_string(&made).unwrap(), "more\n");
        fs::remove_file(made).unwrap();
    }
    assert!(!host.project().join("two\nlines").exists());
}

/// What comes of `bulkhead run -- touch ran` when its records are on a filesystem mounted so. Only
/// that command sees it.
fn with_records_on(host: &Host, options: &str, prepared: &str) -> String {
    let records = host.path().join("records");
    fs::create_dir_all(&records).unwrap();
    let script = format!(
        "mount -t tmpfs -o {options} none ../records && cd ../records && {{ {prepared}; }}\n\
         cd ../project && exec \"$0\" run -- touch ran"
    );
    let mut command: Command = host.program("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--mount", "sh", "-c", &script, env!("CARGO_BIN_EXE_bulkhead")]);
    let ran = host.ended(&mut command);
    assert!(!host.project().join("ran").exists());
    format!("{options}\n{}\n", ran.shown())
}

#[test]
fn without_room_for_the_record_nothing_runs() {
    let host = Host::new();
    let full = "mkdir state; head -c 99999 /dev/zero > filler 2>/dev/null";
    insta::assert_snapshot!(
        [
            with_records_on(&host, "size=4k", full),
            with_records_on(&host, "nr_inodes=2", "mkdir state"),
            with_records_on(&host, "ro", "true"),
        ]
        .concat()
    );
}

#[test]
fn output_that_a_file_does_not_take_is_not_lost_quietly() {
    let host = Host::new();
    let mut command = host.shell("\"$0\" run -- echo hello > /dev/full");
    insta::assert_snapshot!(host.ended(&mut command).shown());
    let ran = host.ended(&mut host.shell("\"$0\" run -- sh -c 'echo hello >&2' 2> /dev/full"));
    assert_eq!(ran.code, Some(125));
}

#[test]
fn a_megabyte_of_arguments_passes_where_the_system_lets_it() {
    let host = Host::new();
    let words = std::iter::repeat_n("x".repeat(100_000), 10);
    let script = "echo $#; echo ${#1}".to_owned();
    let args = ["run", "--", "sh", "-c"].map(str::to_owned).into_iter();
    let ran = host.bulkhead(args.chain([script, "sh".to_owned()]).chain(words));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "10\n100000\n"), "{}", ran.stderr);
}

#[test]
fn a_caller_that_ignores_the_ends_of_children_is_served() {
    let host = Host::new();
    let ran = host.ended(&mut host.shell("env --ignore-signal=CHLD \"$0\" run -- echo ran"));
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "ran\n", ""));
}

#[test]
fn few_open_files_are_enough_or_refused_in_words() {
    let host = Host::new();
    for most in [4, 5, 6, 8, 10, 12, 14, 16, 20, 32, 63] {
        let script = format!("ulimit -n {most}; \"$0\" run -- true");
        let ran = host.ended(&mut host.shell(&script));
        assert_eq!(ran.code, Some(125), "{most} {ran:?}");
        assert!(ran.stderr.contains(&format!("may open {most} files")), "{most} {ran:?}");
        assert!(ran.stderr.contains("ulimit -n 1024"), "{most} {ran:?}");
    }
    let ran = host.ended(&mut host.shell("ulimit -n 64; \"$0\" run -- true"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
}
