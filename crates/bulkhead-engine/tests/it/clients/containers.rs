//! The same clients in a container. Its image has nothing but what a root filesystem has besides
//! programs; those are the host's own, seen read-only.

use std::path::Path;

use bulkhead_backends::{
    Backend, Places,
    container::{Candidate, Container, Facts, Product, detect::Address, probe},
};
use bulkhead_testbed::{Dockerd, Setup};

use super::{
    Ask, BARE, CURL, GIT, House, NO_PROXY, PYTHON, World,
    installers::{NPM, cargo, pip, sdks, showing},
    libraries::{NODE, fetches},
    out, ssh, uses_a_secret,
};

/// A daemon with such an image.
fn dockerd() -> Dockerd {
    let dockerd = Dockerd::start(Setup::new("tests-of-clients")).unwrap();
    dockerd.furnish_without_programs().unwrap();
    dockerd
}

async fn facts(dockerd: &Dockerd) -> Facts {
    let candidate = Candidate {
        product: Product::Docker,
        address: Address::parse(dockerd.address()),
        said_by: "the test".to_owned(),
    };
    probe(&candidate).await.unwrap()
}

fn container(facts: Facts, dir: &Path) -> Box<dyn Backend> {
    let places = Places { state: dir.join("state"), runtime: dir.join("runtime"), bus: None };
    Box::new(Container::new(facts, Some("runc"), places).unwrap())
}

/// With the programs of the host.
fn furnished(ask: Ask) -> Ask {
    showing(ask, Path::new("/usr"))
}

/// A client, a host, and what both say.
type Says<'a> = (&'a str, &'a str, &'a str);

async fn twice(house: &House, (script, host, says): Says<'_>, change: impl Fn(Ask) -> Ask) {
    let both = format!("{script}\n{NO_PROXY}\n{script}");
    let said = house.says(change(furnished(out(house, &[host], &both)))).await;
    assert_eq!(said, says.repeat(2), "{script}");
}

#[tokio::test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
async fn clients_get_out_of_containers_with_and_without_a_proxy() {
    let dockerd = dockerd();
    let facts = facts(&dockerd).await;
    let keys = tempfile::tempdir().unwrap();
    let sshd = ssh::Sshd::start(keys.path());
    let (house, world): (House, World) =
        super::house_of(|dir| container(facts, dir), Some(sshd.port));
    for client in [CURL, PYTHON, BARE, NODE] {
        twice(&house, (client, "files.example.com", "hello\n"), |ask| ask).await;
    }
    twice(&house, (GIT, "files.example.com", "from the world\n"), |ask| ask).await;
    twice(&house, (NPM, "npm.example.com", "hello from npm\n"), |ask| ask).await;
    let (script, toolchain) = cargo();
    let fetch = (script.as_str(), "crates.example.com", "hello from cargo\n");
    twice(&house, fetch, |ask| showing(ask, &toolchain)).await;
    ssh::clones(&house, &world, keys.path(), furnished).await;
    uses_a_secret(&house, &world, furnished).await;
}

#[tokio::test]
#[ignore = "starts a Docker daemon, as root, and needs what scripts/install-sdks.sh installs; test.sh does"]
async fn pip_and_libraries_of_python_get_out_of_containers() {
    let dockerd = dockerd();
    let facts = facts(&dockerd).await;
    let (house, _world) = super::house_of(|dir| container(facts, dir), None);
    let sdks = sdks();
    let install = pip(&sdks);
    let install = (install.as_str(), "pip.example.com", "hello from pip\n");
    twice(&house, install, |ask| showing(ask, &sdks)).await;
    fetches(&house, &sdks, furnished).await;
}
