//! A project's file may only narrow until its content is trusted.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::host::{Host, Ran};

const WIDE: &str = "backend = 'none'\nnetwork = 'open'\nenv-files = 'shown'\nkill-after = '9s'\n\
    mounts = ['/srv:/srv:ro']\n[limits]\nmemory = '64g'\ntimeout = 'none'\n[env]\nTOKEN = 'x'\n";

fn plan(host: &Host) -> Ran {
    host.bulkhead(["plan", "--quiet", "--", "true"])
}

#[test]
fn a_file_that_narrows_needs_no_trust() {
    let host = Host::new();
    host.project_file(
        "backend = 'native'\nnetwork = 'none'\nenv-files = 'hidden'\nrequire = ['NoNetwork']\n\
         [limits]\ndisk = '1g'\ntimeout = '5m'\npids = 99\n[ceiling]\ndisk = '2g'\n",
    );
    assert_eq!(plan(&host).code, Some(0));
}

#[test]
fn a_file_that_widens_is_refused_with_what_it_widens() {
    let host = Host::new();
    host.project_file(WIDE);
    insta::assert_snapshot!(plan(&host).shown());
}

#[test]
fn what_the_users_own_layer_allows_is_not_widened() {
    let host = Host::new();
    host.user("[limits]\ndisk = '128g'\n");
    host.project_file("[limits]\ndisk = '64g'\n");
    assert_eq!(plan(&host).code, Some(0));
    host.user("[limits]\ndisk = '1g'\n");
    host.project_file("[limits]\ndisk = '2g'\n");
    assert_eq!(plan(&host).code, Some(125));
}

#[test]
fn trust_is_in_exactly_this_content_at_this_place() {
    let host = Host::new();
    let file = host.project_file("[limits]\npids = 5000\n");
    assert_eq!(plan(&host).code, Some(125));
    insta::assert_snapshot!(host.bulkhead(["trust"]).shown());
    assert_eq!(plan(&host).code, Some(0));

    fs::write(&file, "[limits]\npids = 5001\n").unwrap();
    assert_eq!(plan(&host).code, Some(125));
    fs::write(&file, "[limits]\npids = 5000\n").unwrap();
    assert_eq!(plan(&host).code, Some(0));

    let other = host.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::rename(host.project().join(".bulkhead"), other.join(".bulkhead")).unwrap();
    let mut command = host.command(["plan", "--", "true"]);
    assert_eq!(host.ended(command.current_dir(&other)).code, Some(125));
}

#[test]
fn trust_is_listed_and_revoked() {
    let host = Host::new();
    host.project_file("[limits]\npids = 5000\n");
    let shown = [
        host.bulkhead(["trust", "--list"]),
        host.bulkhead(["trust", ".bulkhead/config.toml"]),
        host.bulkhead(["trust", "--list"]),
        host.bulkhead(["trust", "--revoke"]),
        host.bulkhead(["trust", "--revoke"]),
    ];
    insta::assert_snapshot!(shown.map(|ran| ran.shown()).concat());
    assert_eq!(plan(&host).code, Some(125));
}

#[test]
fn the_store_is_private_and_a_broken_one_trusts_nothing() {
    let host = Host::new();
    host.project_file("[limits]\npids = 5000\n");
    host.bulkhead(["trust"]);
    let store = host.state().join("trust.json");
    assert_eq!(fs::metadata(&store).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(&store, "{").unwrap();
    insta::assert_snapshot!(plan(&host).shown());
}
