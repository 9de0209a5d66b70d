//! Which of the caller's variables a sandbox may start with.
//!
//! Nothing is inherited but a short list of harmless names. A second list names what is refused
//! even then, when a caller copies variables by the dozen (`--env-file`, a wildcard).

/// Variables that change how text looks and nothing else.
const SAFE: [&str; 11] = [
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_TIME",
    "TZ",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "CLICOLOR_FORCE",
];

/// Words that mark a value as a secret.
const SECRET: [&str; 7] =
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"];

/// Variables that make a program run code, or lead it to a socket of the host.
const TREACHEROUS: [&str; 16] = [
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
    "NODE_OPTIONS",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "PERL5OPT",
    "RUBYOPT",
    "SSH_AUTH_SOCK",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "DOCKER_HOST",
    "CONTAINER_HOST",
    "KUBECONFIG",
];
const TREACHEROUS_PREFIXES: [&str; 5] = ["LD_", "GIT_", "DBUS_", "GPG_", "BASH_FUNC_"];

/// The names that a sandbox starts with where the caller has them.
pub fn safe_variables() -> &'static [&'static str] {
    &SAFE
}

/// Whether `name` may be copied from the caller's environment without being given a value.
///
/// `-e NAME=value` is the caller's own word and is not judged by this.
pub fn may_inherit(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let secret = SECRET.iter().any(|word| upper.contains(word));
    let startup = upper.starts_with("PYTHON") && upper.ends_with("STARTUP");
    let treacherous = TREACHEROUS.contains(&upper.as_str())
        || TREACHEROUS_PREFIXES.iter().any(|prefix| upper.starts_with(prefix));
    !(secret || startup || treacherous)
}
