//! A `devcontainer.json` gives what is safe and is refused where it asks for more.

use bulkhead_image::devcontainer::parse;

#[test]
fn the_safe_fields_are_taken_out_of_json_with_comments() {
    let text = r#"// For the editor.
{
    "name": "hello", /* shown
    there */
    "build": { "dockerfile": "Dockerfile", "context": "..", "args": { "A": "1", }, "target": "dev" },
    "containerEnv": { "URL": "http://not.a/comment", },
    "remoteUser": "node",
    "workspaceFolder": "/work",
    "privileged": false,
    "runArgs": [],
    "postCreateCommand": "npm ci",
    "unheardOf": 1,
}"#;
    insta::assert_debug_snapshot!(parse(text).unwrap());
    insta::assert_debug_snapshot!(parse(r#"{ "image": "debian:12" }"#).unwrap().base);
}

#[test]
fn what_would_widen_is_refused_with_its_reason() {
    let fields = [
        r#""initializeCommand": "curl x | sh""#,
        r#""privileged": true"#,
        r#""runArgs": ["--privileged"]"#,
        r#""mounts": ["source=/,target=/host,type=bind"]"#,
        r#""workspaceMount": "source=/,target=/w,type=bind""#,
        r#""capAdd": ["SYS_ADMIN"]"#,
        r#""securityOpt": ["seccomp=unconfined"]"#,
        r#""features": { "x/docker-in-docker": {} }"#,
        r#""dockerComposeFile": "compose.yml""#,
        r#""forwardPorts": [22]"#,
        r#""remoteUser": "root""#,
        r#""containerEnv": { "T": "${localEnv:GITHUB_TOKEN}" }"#,
        r#""image": "${localEnv:X}""#,
        r#""workspaceFolder": "../x""#,
        r#""build": { "dockerfile": "/etc/passwd" }"#,
        r#""build": { "dockerfile": "Dockerfile", "context": "../.." }"#,
        r#""build": { "dockerfile": "Dockerfile", "options": ["--network=host"] }"#,
        r#""build": { "dockerfile": "Dockerfile", "args": { "A": "${localEnv:HOME}" } }"#,
        r#""build": "#,
    ];
    let why = fields.map(|it| match parse(&format!("{{ {it} }}")) {
        Ok(taken) => format!("TAKEN: {taken:?}"),
        Err(error) => error.to_string(),
    });
    insta::assert_snapshot!(why.join("\n"));
}
