use std::collections::BTreeMap;

use super::*;

#[derive(Default)]
struct Shelf {
    files: BTreeMap<PathBuf, String>,
    sockets: Vec<PathBuf>,
}

impl Shelf {
    fn with_socket(mut self, path: &str) -> Self {
        self.sockets.push(PathBuf::from(path));
        self
    }

    fn with_file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(PathBuf::from(path), text.to_owned());
        self
    }
}

impl Disk for Shelf {
    fn text(&self, path: &Path) -> Option<String> {
        self.files.get(path).cloned()
    }

    fn entries(&self, dir: &Path) -> Vec<PathBuf> {
        let below = self.files.keys().filter_map(|path| path.strip_prefix(dir).ok());
        below.filter_map(|rest| rest.iter().next()).map(|name| dir.join(name)).collect()
    }

    fn has_socket(&self, path: &Path) -> bool {
        self.sockets.iter().any(|it| it == path)
    }
}

fn user() -> Surroundings {
    Surroundings {
        home: Some(PathBuf::from("/home/eve")),
        runtime_dir: Some(PathBuf::from("/run/user/1000")),
        user: 1000,
        ..Surroundings::default()
    }
}

/// The candidates, in lines.
fn found(product: Product, around: &Surroundings, disk: &Shelf) -> Vec<String> {
    match candidates(product, around, disk) {
        Ok(found) => {
            found.iter().map(|it| format!("{} by {}", it.address, it.said_by)).collect()
        }
        Err(error) => vec![error.to_string()],
    }
}

#[test]
fn without_sockets_there_is_no_candidate() {
    assert_eq!(found(Product::Docker, &user(), &Shelf::default()), [""; 0]);
    assert_eq!(found(Product::Podman, &user(), &Shelf::default()), [""; 0]);
}

#[test]
fn what_the_user_names_is_the_only_place() {
    let disk = Shelf::default().with_socket("/var/run/docker.sock");
    let around = Surroundings { docker_host: Some("unix:///x/d.sock".to_owned()), ..user() };
    assert_eq!(found(Product::Docker, &around, &disk), ["unix:///x/d.sock by DOCKER_HOST"]);
    let around =
        Surroundings { docker_host: Some("tcp://10.0.0.1:2375/".to_owned()), ..user() };
    assert_eq!(found(Product::Docker, &around, &disk), ["tcp://10.0.0.1:2375 by DOCKER_HOST"]);
    let around = Surroundings { container_host: Some("/x/p.sock".to_owned()), ..user() };
    assert_eq!(found(Product::Podman, &around, &disk), ["unix:///x/p.sock by CONTAINER_HOST"]);
    assert_eq!(
        found(Product::Docker, &around, &disk),
        ["unix:///var/run/docker.sock by the usual socket"]
    );
}

#[test]
fn usual_places_come_in_the_order_of_their_own_clients() {
    let disk = Shelf::default()
        .with_socket("/home/eve/.docker/desktop/docker.sock")
        .with_socket("/run/user/1000/docker.sock")
        .with_socket("/var/run/docker.sock")
        .with_socket("/run/podman/podman.sock")
        .with_socket("/run/user/1000/podman/podman.sock");
    assert_eq!(
        found(Product::Docker, &user(), &disk),
        [
            "unix:///var/run/docker.sock by the usual socket",
            "unix:///run/user/1000/docker.sock by the socket of your rootless daemon",
            "unix:///home/eve/.docker/desktop/docker.sock by the socket of Docker Desktop",
        ]
    );
    assert_eq!(
        found(Product::Podman, &user(), &disk),
        [
            "unix:///run/user/1000/podman/podman.sock by the socket of your own service",
            "unix:///run/podman/podman.sock by the usual socket",
        ]
    );
    let root = Surroundings { user: 0, runtime_dir: None, ..user() };
    assert_eq!(
        found(Product::Podman, &root, &disk),
        ["unix:///run/podman/podman.sock by the usual socket"]
    );
}

const CONFIG: &str = "/home/eve/.docker/config.json";
const META: &str = "/home/eve/.docker/contexts/meta/6e1f/meta.json";
const COLIMA: &str = r#"{"Name": "colima", "Metadata": {},
    "Endpoints": {"docker": {"Host": "unix:///home/eve/.colima/docker.sock", "SkipTLSVerify": false}}}"#;

#[test]
fn a_context_leads_to_its_daemon() {
    let disk = Shelf::default()
        .with_file(CONFIG, r#"{"auths": {}, "currentContext": "colima"}"#)
        .with_file(META, COLIMA)
        .with_socket("/var/run/docker.sock");
    let colima = ["unix:///home/eve/.colima/docker.sock by the Docker context `colima`"];
    assert_eq!(found(Product::Docker, &user(), &disk), colima);
    let around = Surroundings { docker_host: Some("unix:///x".to_owned()), ..user() };
    assert_eq!(found(Product::Docker, &around, &disk), ["unix:///x by DOCKER_HOST"]);
    let around = Surroundings { docker_context: Some("default".to_owned()), ..user() };
    let usual = ["unix:///var/run/docker.sock by the usual socket"];
    assert_eq!(found(Product::Docker, &around, &disk), usual);
    let around = Surroundings { docker_config: Some(PathBuf::from("/elsewhere")), ..user() };
    assert_eq!(found(Product::Docker, &around, &disk), usual);
}

#[test]
fn a_context_that_is_not_there_is_named() {
    let disk = Shelf::default().with_file(META, COLIMA).with_socket("/var/run/docker.sock");
    let around = Surroundings { docker_context: Some("lab".to_owned()), ..user() };
    assert_eq!(
        found(Product::Docker, &around, &disk),
        ["there is no Docker context `lab`, which DOCKER_CONTEXT names"]
    );
}

#[test]
fn addresses_that_we_do_not_speak_say_what_to_do() {
    let hint = |text: &str| match Address::parse(text) {
        Address::Foreign { hint, .. } => hint,
        Address::Unix(_) | Address::Tcp(_) => "",
    };
    assert!(hint("ssh://me@host").contains("ssh -nNT -L"), "{}", hint("ssh://me@host"));
    assert!(hint("npipe:////./pipe/docker_engine").contains("Windows"));
    assert!(hint("host:2375").contains("tcp://"));
    let around = Surroundings {
        docker_host: Some("tcp://10.0.0.1:2376".to_owned()),
        docker_tls: true,
        ..user()
    };
    let found = candidates(Product::Docker, &around, &Shelf::default()).unwrap();
    assert!(matches!(found[0].address, Address::Foreign { .. }), "{found:?}");
}
