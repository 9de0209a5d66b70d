//! From a plan to steps, as `bulkhead plan` prints them.
//!
//! The root is a directory of the suite's own, because the host's differs from host to host.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up should stop")]

use std::{fs, path::PathBuf};

use bulkhead_backends::{Backend as _, Native, Places};
use bulkhead_policy::{Policy, resolve};
use bulkhead_spec::{
    Access, Bytes, EnvFiles, HostPath, Limits, Mount, Network, Root, Spec, Workspace,
};
use insta::assert_snapshot;

/// Parts of `/proc` that some kernels lack.
const OPTIONAL: [&str; 11] = [
    "acpi",
    "asound",
    "bus",
    "driver",
    "kcore",
    "latency_stats",
    "modules",
    "sched_debug",
    "scsi",
    "slabinfo",
    "timer_stats",
];

/// What would be built for a workspace in which `prepare` has made some files.
fn steps(prepare: impl FnOnce(&std::path::Path), ask: impl FnOnce(&mut Spec)) -> String {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().canonicalize().unwrap();
    let [root, workspace] = ["root", "work"].map(|it| dir.join(it));
    for made in [root.join("usr/bin"), root.join("tmp"), workspace.clone()] {
        fs::create_dir_all(made).unwrap();
    }
    prepare(&workspace);
    let host = |path: PathBuf| HostPath::try_from(path).unwrap();
    let mut spec = Spec {
        root: Root::Directory(host(root)),
        workspace: Some(Workspace {
            dir: host(workspace),
            access: Access::ReadWrite,
            env_files: EnvFiles::Hidden,
            unprotected: Vec::new(),
        }),
        limits: Limits { disk: Some(Bytes(1 << 30)), inodes: Some(1000), ..Limits::default() },
        ..Spec::default()
    };
    ask(&mut spec);
    let plan = resolve(spec, &Policy::default()).unwrap();
    let places = Places { state: dir.join("state"), runtime: dir.join("run"), bus: None };
    let lines = Native::probe(places).describe(&plan).unwrap();
    let here = dir.display().to_string();
    let everywhere =
        |line: &&String| !OPTIONAL.iter().any(|it| line.contains(&format!("new/proc/{it}`")));
    let lines: Vec<_> =
        lines.iter().filter(everywhere).map(|it| it.replace(&here, "/DIR")).collect();
    lines.join("\n")
}

/// Root and others are built differently: one is mapped by its parent, the other maps itself.
fn check(name: &str, steps: &str) {
    let user = rustix::process::getuid();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_suffix(if user.is_root() { "as_root" } else { "as_user" });
    settings.add_filter(r"`1000 \d+ 1`", "`1000 USER 1`");
    // Numbered by the steps before, some of which are left out.
    settings.add_filter(r"(lower|upper)\d+", "${1}N");
    settings.set_omit_expression(true);
    settings.bind(|| assert_snapshot!(name, steps));
}

#[test]
fn an_empty_workspace() {
    check("an_empty_workspace", &steps(|_| (), |_| ()));
}

#[test]
fn a_read_only_workspace_with_shares() {
    let shares = |spec: &mut Spec| {
        let workspace = spec.workspace.as_mut().unwrap();
        workspace.access = Access::ReadOnly;
        for (from, to, access) in
            [("/usr", "/usr", Access::ReadOnly), ("/usr/share", "/data", Access::Private)]
        {
            let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
            spec.mounts.push(Mount { from, to, access });
        }
        spec.tmpfs.push("/scratch".parse().unwrap());
    };
    check("a_read_only_workspace_with_shares", &steps(|_| (), shares));
}

#[test]
fn a_repository_with_secrets() {
    let prepare = |dir: &std::path::Path| {
        for made in [".git/hooks", ".git/info", ".git/modules/library/hooks", ".claude"] {
            fs::create_dir_all(dir.join(made)).unwrap();
        }
        for made in [
            ".git/HEAD",
            ".git/config",
            ".git/modules/library/HEAD",
            ".git/modules/library/config",
            ".claude/settings.json",
            ".envrc",
            ".env",
        ] {
            fs::write(dir.join(made), "").unwrap();
        }
    };
    check("a_repository_with_secrets", &steps(prepare, |_| ()));
}

#[test]
fn a_way_out_has_its_doors_and_its_names() {
    let way_out = |spec: &mut Spec| {
        spec.network = Network::Proxy;
        let rules = bulkhead_spec::allowing("db.example.com:5432", "a test").unwrap();
        spec.egress.allow.extend(rules);
    };
    let steps = steps(|_| (), way_out);
    let about = |it: &&str| it.contains("doors") || it.contains("resolv.conf");
    let about: Vec<_> = steps.lines().filter(about).collect();
    let expected = [
        "put a file of 50 bytes at `new/etc/resolv.conf`",
        "own every address and open doors at tcp:127.0.0.1:3128 tcp:127.0.0.1:1080 udp:*:53 tcp:*:53 tcp:*:80 \
         tcp:*:443 tcp:*:5432",
    ];
    assert_eq!(about, expected);
}
