//! A home like those that people have.

use std::{fs, os::unix::fs::symlink, path::Path};

use bulkhead_spec::Access;

use super::{Toolchains, discover};
use crate::config::Environment;

struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn with(files: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        Self { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// What is found with `path`, in which `~` is the home.
    fn discover(&self, path: &str) -> Toolchains {
        self.discover_with(path, &[])
    }

    fn discover_with(&self, path: &str, more: &[(&str, &str)]) -> Toolchains {
        let home = self.path().to_str().unwrap();
        let mut variables = vec![("HOME", home.to_owned()), ("PATH", path.replace('~', home))];
        variables.extend(more.iter().map(|(name, value)| (*name, value.replace('~', home))));
        discover(&variables.into_iter().collect::<Environment>(), &[])
    }

    /// What is shared below the home, with `~` for it.
    fn shared(&self, found: &Toolchains) -> Vec<String> {
        let home = self.path().to_str().unwrap();
        let mut shared: Vec<String> = found
            .mounts
            .iter()
            .map(|it| format!("{}:{}", it.to, crate::share::word(it.access)))
            .map(|it| it.replace(home, "~"))
            .collect();
        shared.sort();
        shared
    }
}

fn path_of(found: &Toolchains) -> String {
    found.env.get(std::ffi::OsStr::new("PATH")).unwrap().to_str().unwrap().to_owned()
}

const RUST: &[&str] = &[
    ".cargo/bin/cargo",
    ".cargo/bin/rustup",
    ".cargo/registry/index/x",
    ".cargo/git/db/x",
    ".cargo/credentials.toml",
    ".cargo/credentials",
    ".cargo/env",
    ".rustup/toolchains/stable/bin/rustc",
    ".ssh/id_ed25519",
    ".npmrc",
];

#[test]
fn rust_is_shared_without_its_credentials() {
    let home = Home::with(RUST);
    let found = home.discover("~/.cargo/bin:/usr/bin");
    assert_eq!(
        home.shared(&found),
        [
            "~/.cargo/bin:ro",
            "~/.cargo/git:private",
            "~/.cargo/registry:private",
            "~/.rustup:ro",
        ]
    );
    assert_eq!(path_of(&found), format!("{}/.cargo/bin:/usr/bin", home.path().display()));
}

#[test]
fn cargo_settings_are_shared_only_if_they_hold_no_secret() {
    let home = Home::with(RUST);
    let settings = home.path().join(".cargo/config.toml");
    fs::write(&settings, "[net]\noffline = true\n").unwrap();
    let shared = |home: &Home| home.shared(&home.discover("~/.cargo/bin:/usr/bin"));
    assert!(shared(&home).contains(&"~/.cargo/config.toml:ro".to_owned()));
    fs::write(&settings, "[registry]\ntoken = \"x\"\n").unwrap();
    assert!(!shared(&home).contains(&"~/.cargo/config.toml:ro".to_owned()));
}

#[test]
fn variables_say_where_a_toolchain_is() {
    let home = Home::with(&["elsewhere/bin/cargo", "elsewhere/registry/x", ".cargo/bin/cargo"]);
    let found =
        home.discover_with("~/elsewhere/bin:/usr/bin", &[("CARGO_HOME", "~/elsewhere")]);
    assert_eq!(home.shared(&found), ["~/elsewhere/bin:ro", "~/elsewhere/registry:private"]);
}

#[test]
fn a_toolchain_whose_place_is_the_home_is_not_shared() {
    let home = Home::with(&["bin/tool", "pkg/mod/x", ".ssh/id"]);
    let found = home.discover_with("~/bin:/usr/bin", &[("GOPATH", "~")]);
    assert_eq!(home.shared(&found), Vec::<String>::new());
}

#[test]
fn the_home_and_what_holds_it_are_dropped_from_the_path() {
    let home = Home::with(&["tool", ".secret/bin/tool"]);
    let parent = home.path().parent().unwrap().display().to_string();
    let found = home.discover(&format!("~:{parent}:/:.:bin:~/../x:~/.secret/bin:/usr/bin"));
    assert_eq!((path_of(&found).as_str(), found.mounts.len()), ("/usr/bin", 0));
}

#[test]
fn links_in_local_bin_bring_their_own_version_only() {
    let home = Home::with(&[
        ".local/bin/script",
        ".local/share/uv/tools/ruff/bin/ruff",
        ".local/share/uv/tools/black/bin/black",
        ".local/share/claude/versions/2.1.0",
        ".local/share/agent/bin/agent",
        ".local/share/agent/auth.json",
        ".aws/credentials",
    ]);
    let link = |name: &str, to: &str| {
        symlink(home.path().join(to), home.path().join(".local/bin").join(name)).unwrap();
    };
    link("ruff", ".local/share/uv/tools/ruff/bin/ruff");
    link("claude", ".local/share/claude/versions/2.1.0");
    link("agent", ".local/share/agent/bin/agent");
    link("keys", ".aws/credentials");
    let found = home.discover("~/.local/bin:/usr/bin");
    let shared: Vec<String> =
        home.shared(&found).into_iter().filter(|it| !it.contains("python3")).collect();
    assert_eq!(
        shared,
        [
            "~/.local/bin:ro",
            "~/.local/share/agent/bin/agent:ro",
            "~/.local/share/claude/versions/2.1.0:ro",
            "~/.local/share/uv/tools/ruff:ro",
        ]
    );
}

#[test]
fn a_link_that_leads_out_of_a_toolchain_is_mounted_from_where_it_leads() {
    let home = Home::with(&["real/bin/cargo"]);
    symlink(home.path().join("real"), home.path().join(".cargo")).unwrap();
    let found = home.discover("~/.cargo/bin:/usr/bin");
    let mount = found.mounts.first().unwrap();
    assert!(mount.from.as_path().ends_with("real/bin"), "{mount:?}");
    assert!(mount.to.as_path().ends_with(".cargo/bin"), "{mount:?}");
    assert_eq!(mount.access, Access::ReadOnly);
}

#[test]
fn directories_that_anybody_can_write_to_are_not_shared() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::with(&[]);
    let tools = tempfile::tempdir().unwrap();
    let found = |path: &Path| home.discover(&format!("{}:/usr/bin", path.display()));
    assert_eq!(found(tools.path()).mounts.len(), 1);
    fs::set_permissions(tools.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(found(tools.path()).mounts.len(), 0);
}

#[test]
fn a_path_without_the_system_gets_it() {
    let home = Home::with(RUST);
    assert!(path_of(&home.discover("~/.cargo/bin")).ends_with("/usr/bin:/sbin:/bin"));
}
