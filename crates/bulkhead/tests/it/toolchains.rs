//! What of the caller's home is there inside.

use crate::host::Host;

#[test]
fn a_toolchain_works_inside_and_its_credentials_stay_outside() {
    let host = Host::new();
    let cargo =
        host.write("home/.cargo/bin/cargo", "#!/bin/sh\necho \"tool in $CARGO_HOME\"\n");
    make_executable(&cargo);
    host.write("home/.cargo/credentials.toml", "token = 'x'");
    host.write("home/.cargo/registry/index", "cached\n");
    host.write("home/.ssh/id_ed25519", "key");
    let bin = host.home().join(".cargo/bin");
    let script = "cargo; cd ~; cat .cargo/registry/index; echo changed > .cargo/registry/index; \
                  cat .cargo/registry/index; find . -mindepth 1 | sort; \
                  touch .cargo/bin/evil 2>/dev/null || echo read-only";
    let mut command = host.command(["run", "--", "sh", "-c", script]);
    let ran = host.ended(command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())));
    insta::assert_snapshot!(ran.shown());
    let index = std::fs::read_to_string(host.home().join(".cargo/registry/index")).unwrap();
    assert_eq!(index, "cached\n");
}

#[test]
fn what_is_on_the_path_and_not_shared_is_mentioned_to_the_curious() {
    let host = Host::new();
    let scripts = host.home().join("bin");
    std::fs::create_dir(&scripts).unwrap();
    let mut command = host.command(["plan", "--verbose", "--", "true"]);
    let ran = host.ended(command.env("PATH", format!("{}:/usr/bin", scripts.display())));
    assert_eq!(
        ran.stderr,
        "bulkhead: `[HOST]/home/bin` is on the PATH and not shared; --mount shares it\n"
    );
}

fn make_executable(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
