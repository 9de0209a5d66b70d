use bulkhead_policy::{may_inherit, safe_variables};

#[test]
fn what_may_be_copied_by_name() {
    let harmless = [
        "HOME",
        "PATH",
        "USER",
        "EDITOR",
        "CI",
        "RUST_LOG",
        "CARGO_TERM_COLOR",
        "PYTHONPATH",
        "LC_ALL",
        "ENVIRONMENT",
        "GOFLAGS",
        "DISPLAY_NAME",
        "LDFLAGS",
        "GITHUB_ACTIONS",
    ];
    for name in harmless {
        assert!(may_inherit(name), "{name}");
    }
}

#[test]
fn what_may_not() {
    let secrets = [
        "OPENAI_API_KEY",
        "github_token",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "PGPASSWORD",
        "DbPassword",
        "MYSQL_PASSWD",
        "BORG_PASSPHRASE",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "KEY",
    ];
    let treacherous = [
        "LD_PRELOAD",
        "ld_library_path",
        "BASH_ENV",
        "ENV",
        "env",
        "BASH_FUNC_ls%%",
        "PROMPT_COMMAND",
        "PYTHONSTARTUP",
        "PYTHON_X_STARTUP",
        "NODE_OPTIONS",
        "JAVA_TOOL_OPTIONS",
        "_JAVA_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "PERL5OPT",
        "RUBYOPT",
        "GIT_SSH_COMMAND",
        "GIT_DIR",
        "SSH_AUTH_SOCK",
        "GPG_AGENT_INFO",
        "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XAUTHORITY",
        "DOCKER_HOST",
        "CONTAINER_HOST",
        "KUBECONFIG",
    ];
    for name in secrets.into_iter().chain(treacherous) {
        assert!(!may_inherit(name), "{name}");
    }
}

#[test]
fn every_safe_name_may_be_inherited() {
    let refused: Vec<_> = safe_variables().iter().filter(|it| !may_inherit(it)).collect();
    assert!(refused.is_empty(), "{refused:?}");
    assert!(safe_variables().contains(&"TERM"));
    assert!(!safe_variables().contains(&"PATH"), "the sandbox has a PATH of its own");
}
