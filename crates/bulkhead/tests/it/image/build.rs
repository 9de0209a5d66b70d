//! Builds in a real daemon.

use std::{fs, path::Path, time::Duration};

use crate::{
    dockerd::Dockerd,
    host::{Host, Ran},
};

/// A root with a shell and little else, out of this machine's own files.
const TINY: &str = r#"
    for program in dash mkdir chown cat ls rm ln date; do
        mkdir -p "$1/bin"; cp "$(readlink -f "$(command -v $program)")" "$1/bin/$program"
        ldd "$1/bin/$program" | grep -o '/[^ ]*' | while read -r library; do
            mkdir -p "$1$(dirname "$library")"; cp -L "$library" "$1$library"
        done
    done
    ln -s dash "$1/bin/sh"; mkdir -p "$1/etc" "$1/tmp"; : > "$1/etc/passwd"; : > "$1/etc/group"
    tar -C "$1" -cf "$1.tar" .
"#;

const DOCKERFILE: &str = "\
FROM tiny:1 AS dependencies
COPY lock /deps/
RUN mkdir /opt && date > /dev/null && cat /deps/lock > /opt/made && ln /opt/made /opt/again
FROM tiny:1 AS sandbox
COPY --from=dependencies /opt /opt
USER 10000:10000
FROM sandbox AS app
COPY . /app/
";

pub(super) fn with_tiny(dockerd: &Dockerd) {
    let dir = dockerd.scratch("tiny");
    let host = Host::new();
    let mut command = host.program("/bin/sh");
    let ran = host.ended(command.args(["-ec", TINY, "sh", dir.to_str().unwrap()]));
    assert_eq!(ran.code, Some(0), "{}", ran.shown());
    dockerd.import(&format!("{}.tar", dir.display()), &["tiny:1".to_owned()]);
}

fn project(host: &Host, dockerfile: &str) {
    host.write("project/.sandbox/Dockerfile", dockerfile);
    host.write("project/lock", "a==1\n");
    host.write("project/source", "one\n");
    assert_eq!(host.bulkhead(["trust", ".sandbox/Dockerfile"]).code, Some(0));
}

fn built(dockerd: &Dockerd, host: &Host, args: &[&str]) -> serde_json::Value {
    let args = [&["image", "build", "--json", "--no-pull"], args].concat();
    serde_json::from_str(&dockerd.ok(host, &args)).unwrap()
}

/// Another time of day for every file, as another checkout would have.
fn touch(path: &Path) {
    let later = fs::metadata(path).unwrap().modified().unwrap() + Duration::from_secs(12_345);
    fs::File::options().append(true).open(path).unwrap().set_modified(later).unwrap();
}

#[test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
fn the_same_files_give_the_same_image_and_are_built_once() {
    let dockerd = Dockerd::start();
    with_tiny(&dockerd);
    let host = Host::new();
    project(&host, DOCKERFILE);
    let first = built(&dockerd, &host, &[]);
    assert_eq!(first["reused"], false);
    assert_eq!(built(&dockerd, &host, &[])["reused"], true);

    // All steps again, later, with files of another time.
    touch(&host.project().join("lock"));
    let second = built(&dockerd, &host, &["--no-cache"]);
    assert_eq!(second["reused"], false);
    assert_eq!(second["id"], first["id"]);

    // Source that the stage does not copy changes nothing; a lock file does.
    host.write("project/source", "two\n");
    assert_eq!(built(&dockerd, &host, &[])["reused"], true);
    host.write("project/lock", "a==2\n");
    let third = built(&dockerd, &host, &[]);
    assert_ne!(third["id"], first["id"]);

    // It runs, as nobody, with what was made.
    let image = third["image"].as_str().unwrap();
    let ran = dockerd.docker(["run", "--rm", "--network=none", image, "cat", "/opt/again"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "a==2\n"), "{}", ran.shown());

    looked_after(&dockerd, &host);
}

/// `ls` and `prune` see what is ours, and nothing else.
fn looked_after(dockerd: &Dockerd, host: &Host) {
    let names = || {
        let listed = dockerd.ok(host, &["image", "ls", "--json"]);
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let images = listed["images"].as_array().unwrap().clone();
        assert!(
            images.iter().all(|it| it["since"].is_u64() || it["tags"] == serde_json::json!([]))
        );
        images.iter().filter(|it| it["purpose"] == "image").count()
    };
    assert_eq!(names(), 2);
    // Nothing is old, and a trial removes nothing.
    dockerd.ok(host, &["image", "prune"]);
    dockerd.ok(host, &["image", "prune", "--all", "--dry-run"]);
    assert_eq!(names(), 2);
    dockerd.ok(host, &["image", "prune", "--all"]);
    assert_eq!(names(), 0);
    let left = dockerd.docker(["images", "-a", "-q"]);
    assert_eq!(left.stdout.lines().count(), 1, "only the base: {}", left.shown());
}

#[test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
fn a_build_reaches_neither_the_network_nor_files_that_it_does_not_copy() {
    let dockerd = Dockerd::start();
    with_tiny(&dockerd);
    let host = Host::new();
    let text = "FROM tiny:1\nCOPY . /all/\nRUN ls -A /all /sys/class/net > /seen\n";
    project(&host, text);
    host.write("project/.env", "TOKEN=x\n");
    host.write("project/deep/id_rsa", "key\n");
    std::os::unix::fs::symlink("/etc/shadow", host.project().join("link")).unwrap();
    let image = built(&dockerd, &host, &[]);
    let image = image["image"].as_str().unwrap();
    let ran = dockerd.docker(["run", "--rm", "--network=none", image, "cat", "/seen"]);
    assert_eq!(
        ran.stdout,
        "/all:\n.sandbox\nlink\nlock\nsource\n\n/sys/class/net:\nlo\n",
        "{}",
        ran.shown()
    );
    // A step that fails says so with its last words.
    project(&host, "FROM tiny:1\nRUN echo trouble && cat /nowhere\n");
    let ran: Ran = dockerd.bulkhead(&host, &["image", "build"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("trouble") && ran.stderr.contains("[BH-E042]"), "{ran:?}");
}

#[test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
fn cache_mounts_are_built_by_buildkit_and_reproducible_too() {
    let dockerd = Dockerd::start();
    with_tiny(&dockerd);
    let host = Host::new();
    let text = "FROM tiny:1\nCOPY lock /lock\n\
        RUN --mount=type=cache,target=/cache cat /lock > /cache/x && cat /cache/x > /made\n";
    project(&host, text);
    let first = built(&dockerd, &host, &[]);
    touch(&host.project().join("lock"));
    let second = built(&dockerd, &host, &["--no-cache"]);
    assert_eq!((&second["id"], &second["reused"]), (&first["id"], &false.into()));
    let ran =
        dockerd.docker(["run", "--rm", second["image"].as_str().unwrap(), "cat", "/made"]);
    assert_eq!(ran.stdout, "a==1\n", "{}", ran.shown());
    // Each step is told, and one that fails says so with its last words.
    let text =
        "FROM tiny:1\nRUN --mount=type=cache,target=/cache echo trouble && cat /nowhere\n";
    project(&host, text);
    let ran: Ran = dockerd.bulkhead(&host, &["image", "build"]);
    assert_eq!(ran.code, Some(1));
    for said in ["step 2/", "RUN --mount=type=cache", "trouble", "[BH-E042]"] {
        assert!(ran.stderr.contains(said), "{said}: {}", ran.shown());
    }
}

#[test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
fn a_scan_passes_on_what_the_scanner_finds() {
    let dockerd = Dockerd::start();
    let host = Host::new();
    let script = "#!/bin/sh\nprintf '{\"runs\":[{\"results\":[{\"level\":\"error\",\
        \"message\":{\"text\":\"%s\"}}]}]}' \"$*\"\n";
    let trivy = host.write("bin/trivy", script);
    fs::set_permissions(trivy, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let scan = |args: &[&str]| {
        let path = format!("{}:/usr/bin:/bin", host.path().join("bin").display());
        let mut command = host.command(args);
        host.ended(command.env("DOCKER_HOST", dockerd.host()).env("PATH", path))
    };
    let ran = scan(&["image", "scan", "a:1"]);
    assert_eq!(ran.code, Some(0), "{}", ran.shown());
    assert!(ran.stdout.contains("image --quiet --format sarif -- a:1"), "{}", ran.stdout);
    assert!(ran.stderr.contains("1 errors, 0 warnings"), "{}", ran.stderr);
    assert_eq!(scan(&["image", "scan", "a:1", "--fail-on", "error"]).code, Some(1));
    let ran = scan(&["image", "scan", "a:1", "--output", "found.sarif"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""));
    assert!(host.project().join("found.sarif").is_file());
}
