use bulkhead_spec::{Bytes, Cpus, Limits, Span};

#[test]
fn a_file_names_its_limits_in_the_words_of_the_flags() {
    let limits: Limits = toml::from_str(
        r#"
        memory = "512m"
        cpus = 1.5
        pids = 64
        disk = "2g"
        inodes = 1000
        cpu_time = "90s"
        timeout = 300
        output = 4096
        files = 256
        "#,
    )
    .unwrap();
    let expected = Limits {
        memory: Some(Bytes(512 << 20)),
        cpus: Cpus::from_millis(1500).ok(),
        pids: Some(64),
        disk: Some(Bytes(2 << 30)),
        inodes: Some(1000),
        cpu_time: "90s".parse::<Span>().ok(),
        timeout: "5m".parse::<Span>().ok(),
        output: Some(Bytes(4096)),
        files: Some(256),
    };
    assert_eq!(limits, expected);
}

#[test]
fn a_limit_that_is_not_known_is_not_ignored() {
    let error = toml::from_str::<Limits>("memroy = \"512m\"").unwrap_err();
    assert!(error.to_string().contains("unknown field `memroy`"), "{error}");
}

#[test]
fn a_limit_that_cannot_be_read_names_its_place() {
    let error = toml::from_str::<Limits>("pids = 1\nmemory = \"512x\"").unwrap_err();
    insta::assert_snapshot!(error);
}
