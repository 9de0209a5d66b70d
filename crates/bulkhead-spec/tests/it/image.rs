use bulkhead_spec::{Digest, Reference};

fn read(text: &str) -> String {
    match text.parse::<Reference>() {
        Ok(reference) => reference.to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn names_are_filled_in_as_docker_does() {
    let digest = format!("sha256:{}", "0a".repeat(32));
    let pinned = format!("debian@{digest}");
    let both = format!("r.example:5000/a/b_c:1.2-x@{digest}");
    for (text, full) in [
        ("debian", "docker.io/library/debian:latest"),
        ("debian:12", "docker.io/library/debian:12"),
        ("team/tool", "docker.io/team/tool:latest"),
        ("docker.io/debian", "docker.io/library/debian:latest"),
        ("index.docker.io/team/tool:1", "docker.io/team/tool:1"),
        ("localhost/x", "localhost/x:latest"),
        ("localhost:5000/x:y", "localhost:5000/x:y"),
        ("[::1]:5000/x", "[::1]:5000/x:latest"),
        (&pinned, &format!("docker.io/library/debian@{digest}")),
        (&both, &both),
    ] {
        assert_eq!(read(text), full);
    }
}

#[test]
fn what_is_no_name_is_refused() {
    for text in [
        "",
        "Debian",
        "debian:",
        "debian:a b",
        "debian@sha256:12",
        "debian@sha512:00",
        "../etc/passwd",
        "r.example/../x",
        "r.example//x",
        "r.example/",
        "user@r.example/x",
        "r.example:99999/x",
        "r.example:+1/x",
        "r.example:x/x",
        "-r.example/x",
        "r.exa mple/x",
        "[::1/x",
        "[zz]:1/x",
        "a/b:c/d",
        "x\u{1b}[2J",
    ] {
        assert!(read(text).contains("is not the name of an image"), "{text}: {}", read(text));
        assert!(!read(text).contains('\u{1b}'));
    }
}

#[test]
fn a_digest_is_sha256_in_lower_case() {
    let text = format!("sha256:{}", "0af9".repeat(16));
    let digest: Digest = text.parse().unwrap();
    assert_eq!(digest.to_string(), text);
    for wrong in [&text[..70], &text.to_uppercase(), &text.replace("256", "512"), "sha256:", ""]
    {
        assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
    }
}
