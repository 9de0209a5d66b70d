//! Dockerfiles that attack their builder are refused, and ordinary ones are not.

use bulkhead_image::review::review;

fn refused(text: &str) -> String {
    match review(text) {
        Ok(_) => format!("BUILT: {text}"),
        Err(refused) => refused.to_string(),
    }
}

#[test]
fn what_reaches_for_the_host_is_refused() {
    let attacks = [
        "# syntax=attacker/x\nFROM a\n",
        "#  Syntax = attacker/x\nFROM a\n",
        "// syntax=attacker/x\nFROM a\n",
        "#!/usr/bin/env x\n# syntax=attacker/x\nFROM a\n",
        "{ \"syntax\": \"attacker/x\" }\nFROM a\n",
        "# escape=`\nFROM a\n",
        "ARG BUILDKIT_SYNTAX=attacker/x\nFROM a\n",
        "FROM a\nADD http://denied.test/x /x\n",
        "FROM a\nADD --checksum=sha256:1 https://denied.test/x /x\n",
        "FROM a\nADD git@denied.test:x/y.git /x\n",
        "FROM a\nADD [\"https://denied.test/x\", \"/x\"]\n",
        "FROM a\nENV U=http\nADD $U://denied.test/x /x\n",
        "FROM a\nRUN --mount=type=bind,source=/,target=/host ls\n",
        "FROM a\nRUN --mount=type=bind,src=../..,target=/host ls\n",
        "FROM a\nRUN --mount=source=/etc,target=/host ls\n",
        "FROM a\nRUN --mount=type=ssh ls\n",
        "FROM a\nRUN --mount=type=secret,id=x ls\n",
        "FROM a\nRUN --mount=type=cache,from=b,target=/x ls\n",
        "FROM a\nRUN --security=insecure ls\n",
        "FROM a\nRUN --network=host ls\n",
        "FROM a\nRUN --device=/dev/kvm ls\n",
        "FROM a\nRUN \\\n  # a comment\n  --mount=type=ssh ls\n",
        "FROM a\nARG SSH_AUTH_SOCK\n",
        "FROM a\nARG NPM_TOKEN\n",
        "FROM a\nARG http_proxy\n",
        "ARG BASE=a\nFROM $BASE\n",
        "FROM a\nCOPY --from=$X / /\n",
        "FROM a\nCOPY ../secret /x\n",
        "FROM a\nONBUILD RUN ls\n",
        "FROM a\nMOUNT x\n",
        "FROM a\nRUN echo \"<<EOF\"\nADD http://x /x\nEOF\n",
        "FROM a\nRUN \\\n\n--mount=type=ssh ls\n",
        "RUN ls\n",
        "",
    ];
    insta::assert_snapshot!(attacks.map(refused).join("\n"));
}

#[test]
fn what_is_copied_and_built_on_is_known_before_the_build() {
    let text = "# syntax is a word in this comment\nFROM golang:1 AS Deps\n\
        WORKDIR /workspace\nCOPY --chown=1:1 go.mod go.sum ./\nRUN go mod download\n\
        FROM debian:12@sha256:ab AS sandbox\nCOPY --from=deps /opt/go /opt/go\n\
        COPY --from=busybox /bin/sh /bin/sh\nCOPY [\"a b\", \"/x/\"]\n\
        FROM sandbox AS app\nCOPY . .\n";
    let reviewed = review(text).unwrap();
    assert_eq!(reviewed.default_target(), Some("sandbox"));
    assert!(!reviewed.needs_buildkit);
    let words = |it: std::collections::BTreeSet<String>| Vec::from_iter(it);
    assert_eq!(
        words(reviewed.bases(Some("sandbox"))),
        ["busybox", "debian:12@sha256:ab", "golang:1"]
    );
    assert_eq!(words(reviewed.sources(Some("sandbox"))), ["a b", "go.mod", "go.sum"]);
    assert_eq!(words(reviewed.sources(None)), [".", "a b", "go.mod", "go.sum"]);
}

#[test]
fn mounts_need_buildkit() {
    for text in [
        "FROM a\nRUN --mount=type=cache,target=/root/.npm npm ci\n",
        "FROM a\nRUN --mount=type=bind,source=go.mod,target=/go.mod cat /go.mod\n",
    ] {
        assert!(review(text).unwrap().needs_buildkit, "{text}");
    }
}
