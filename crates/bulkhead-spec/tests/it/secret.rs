use bulkhead_spec::Secret;

#[test]
fn a_secret_shows_its_value_only_when_it_is_exposed() {
    let secret = Secret::new("hunter2");
    assert_eq!(
        format!("{secret:?} {:#?}", Some(&secret)),
        "Secret(…) Some(\n    Secret(…),\n)"
    );
    assert_eq!(secret.expose(), "hunter2");
}
