//! Images as roots, without a daemon.

use std::{fs, path::Path};

use serde_json::{Value, json};
use sha2::Digest as _;

use crate::host::Host;

/// What one entry of a layer is.
enum Is<'a> {
    Dir,
    File(&'a [u8], u32),
    Link(&'a str),
}

fn layer(entries: &[(&str, Is<'_>)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, is) in entries {
        let mut header = tar::Header::new_ustar();
        header.set_size(0);
        header.set_mode(0o755);
        match is {
            Is::Dir => {
                header.set_entry_type(tar::EntryType::Directory);
                tar.append_data(&mut header, name, &[][..]).unwrap();
            }
            Is::File(content, mode) => {
                header.set_size(content.len() as u64);
                header.set_mode(*mode);
                tar.append_data(&mut header, name, *content).unwrap();
            }
            Is::Link(to) => {
                header.set_entry_type(tar::EntryType::Symlink);
                tar.append_link(&mut header, name, to).unwrap();
            }
        }
    }
    tar.into_inner().unwrap()
}

fn digest(bytes: &[u8]) -> String {
    let hex: Vec<String> =
        sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{}", hex.concat())
}

/// Two layers of busybox: the second removes a file of the first and hides a directory.
fn layers() -> [Vec<u8>; 2] {
    let busybox = fs::read("/bin/busybox").expect("busybox-static is installed");
    let below = layer(&[
        ("bin", Is::Dir),
        ("bin/busybox", Is::File(&busybox, 0o4755)),
        ("bin/sh", Is::Link("busybox")),
        ("bin/cat", Is::Link("busybox")),
        ("bin/id", Is::Link("busybox")),
        ("bin/ls", Is::Link("busybox")),
        ("etc", Is::Dir),
        (
            "etc/passwd",
            Is::File(b"root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/n:/bin/sh\n", 0o644),
        ),
        ("data", Is::Dir),
        ("data/old", Is::File(b"old", 0o644)),
        ("data/gone", Is::File(b"gone", 0o644)),
        ("hidden", Is::Dir),
        ("hidden/below", Is::File(b"", 0o644)),
        ("locked", Is::File(b"for root alone", 0)),
    ]);
    let above = layer(&[
        ("data/.wh.gone", Is::File(b"", 0o644)),
        ("data/new", Is::File(b"new", 0o644)),
        ("hidden/.wh..wh..opq", Is::File(b"", 0o644)),
        ("hidden/above", Is::File(b"", 0o644)),
    ]);
    [below, above]
}

/// Writes the image as an OCI layout.
fn layout(dir: &Path) {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let layers = layers();
    let blobs = dir.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let put = |kind: &str, bytes: &[u8]| {
        let digest = digest(bytes);
        fs::write(blobs.join(digest.trim_start_matches("sha256:")), bytes).unwrap();
        json!({ "mediaType": kind, "digest": digest, "size": bytes.len() })
    };
    let config = json!({
        "os": "linux",
        "architecture": architecture,
        "config": {
            "Env": ["PATH=/bin", "GREETING=hello", "HOME=/nowhere"],
            "Entrypoint": ["/bin/sh", "-c"],
            "Cmd": ["echo $GREETING from $PATH; ls data; pwd"],
            "WorkingDir": "/srv/app",
            "User": "node",
        },
        "rootfs": { "type": "layers", "diff_ids": layers.each_ref().map(|it| digest(it)) },
    });
    let config = put("application/vnd.oci.image.config.v1+json", config.to_string().as_bytes());
    let tar = "application/vnd.oci.image.layer.v1.tar";
    let layers: Vec<Value> = layers.iter().map(|it| put(tar, it)).collect();
    let manifest =
        json!({ "schemaVersion": 2, "config": config, "layers": layers }).to_string();
    let manifest = put("application/vnd.oci.image.manifest.v1+json", manifest.as_bytes());
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    fs::write(dir.join("index.json"), index.to_string()).unwrap();
}

const SCRIPT: &str =
    "id -un; ls /data /hidden; cat /locked; echo; echo more > /data/more && ls /data";
const SEEN: &str =
    "sandbox\n/data:\nnew\nold\n\n/hidden:\nabove\nfor root alone\nmore\nnew\nold\n";

#[test]
fn an_image_is_a_root_of_which_changes_are_private() {
    let host = Host::new();
    let image = host.path().join("image");
    layout(&image);
    let named = format!("oci:{}", image.display());
    for _ in 0..2 {
        let ran = host.bulkhead(["run", "--no-workspace", "--image", &named, "--", SCRIPT]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), SEEN), "{}", ran.stderr);
    }
}

#[test]
fn the_images_own_program_runs_where_none_is_named() {
    let host = Host::new();
    let image = host.path().join("image");
    layout(&image);
    let image = image.to_str().unwrap();
    let report = host.path().join("report.json");
    let report_flag = format!("--report={}", report.display());
    let ran = host.bulkhead(["run", "--no-workspace", "--image", image, &report_flag]);
    // Its directory is made where the image does not have it, and `data` is not there.
    assert_eq!(ran.stdout, "hello from /bin\n/srv/app\n", "{}", ran.stderr);
    let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    let digest = report["image"]["digest"].as_str().unwrap();
    assert!(digest.starts_with("sha256:"), "{digest}");
    let ran = host.bulkhead([
        "run",
        "--no-workspace",
        "--image",
        image,
        "-e",
        "GREETING=mine",
        "--",
        "echo $GREETING $HOME",
    ]);
    assert_eq!(ran.stdout, "mine /home/sandbox\n", "{}", ran.stderr);
    let ran = host.bulkhead([
        "run",
        "--no-workspace",
        "--image",
        image,
        "--entrypoint",
        "/bin/ls",
        "--",
        "/data",
    ]);
    assert_eq!(ran.stdout, "new\nold\n", "{}", ran.stderr);
}

#[test]
fn a_room_of_an_image_stays_and_has_its_variables() {
    let host = Host::new();
    let image = host.path().join("image");
    layout(&image);
    let image = image.to_str().unwrap();
    let made = host.bulkhead(["create", "--name", "kept", "--no-workspace", "--image", image]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let script = "echo $GREETING from $PATH; ls /data; echo more > /data/more";
    for seen in ["hello from /bin\nnew\nold\n", "hello from /bin\nmore\nnew\nold\n"] {
        let ran = host.bulkhead(["exec", "kept", "--", "/bin/sh", "-c", script]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), seen), "{}", ran.stderr);
    }
    let gone = host.bulkhead(["rm", "-f", "kept"]);
    assert_eq!(gone.code, Some(0), "{}", gone.stderr);
}

/// As an ordinary user, whose cache holds files of that user alone.
#[test]
fn an_ordinary_user_needs_no_daemon_either() {
    if !rustix::process::getuid().is_root() {
        // Every other test of this file is this one then.
        return;
    }
    let host = Host::new();
    let image = host.path().join("image");
    layout(&image);
    let own = host.path().join("own");
    let script = format!(
        "chmod 755 {dir} && mkdir -p {own}/home {own}/project && cp \"$0\" {own}/bulkhead && \
         chown -R 4321:4321 {own} && cd {own}/project && \
         exec setpriv --reuid 4321 --regid 4321 --clear-groups env -i HOME={own}/home PATH=/usr/bin:/bin \
         {own}/bulkhead run --quiet --image {image} -- '{SCRIPT}'",
        dir = host.path().display(),
        own = own.display(),
        image = image.display(),
    );
    let ran = host.ended(&mut host.shell(&script));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), SEEN), "{}", ran.stderr);
}

#[test]
fn an_image_that_is_not_allowed_is_not_even_looked_at() {
    let host = Host::new();
    let image = host.path().join("image");
    layout(&image);
    let image = image.to_str().unwrap();
    for rule in ["[]", "[\"registry.example\"]"] {
        host.user(&format!("ceiling.images = {rule}\n"));
        let ran = host.bulkhead(["run", "--no-workspace", "--image", image, "--", "true"]);
        assert_eq!(ran.code, Some(125), "{}", ran.stderr);
        assert!(ran.stderr.contains("is not among those allowed"), "{}", ran.stderr);
    }
    host.user("ceiling.images = [\"local\"]\n");
    let ran = host.bulkhead(["run", "--no-workspace", "--image", image, "--", "exit 3"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
}

#[test]
fn a_project_that_names_an_image_must_be_trusted() {
    let host = Host::new();
    host.project_file("image = \"registry.example/evil\"\n");
    let ran = host.bulkhead(["run", "true"]);
    assert!(ran.stderr.contains("image `registry.example/evil`"), "{}", ran.stderr);
    assert_eq!(ran.code, Some(125));
}

#[test]
fn a_layer_that_was_changed_on_the_way_is_refused() {
    let host = Host::new();
    let image = host.path().join("image");
    layout(&image);
    for blob in fs::read_dir(image.join("blobs/sha256")).unwrap() {
        let path = blob.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        if 100_000 < bytes.len() {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(path, bytes).unwrap();
        }
    }
    let ran = host.bulkhead(["run", "--image", image.to_str().unwrap(), "--", "true"]);
    assert_eq!(ran.code, Some(125), "{}", ran.stderr);
    assert!(ran.stderr.contains("a layer should be sha256:"), "{}", ran.stderr);
    assert!(ran.stderr.contains("BH-E041"), "{}", ran.stderr);
}
