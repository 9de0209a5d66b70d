//! What this host adds to the way out of its sandboxes: the values of secrets, and the proxy that
//! the host itself must use.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bulkhead_egress::{ProxyAddress, Upstream};
use bulkhead_engine::{Outside, Secrets};
use bulkhead_spec::{Secret, SecretBinding, SecretSource};

use crate::{
    codes::Code,
    config::{Environment, Paths, shown},
    failure::Failure,
};

/// The longest secret.
const MOST: u64 = 64 * 1024;

/// Variables that name the host's own proxy, the most special first.
const PROXIES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// What this host adds.
pub(crate) fn of(environment: &Environment, paths: &Paths) -> Result<Outside, Failure> {
    Ok(Outside {
        secrets: Box::new(HostSecrets(environment.clone())),
        upstream: upstream(environment)?,
        sockets: paths.rules(),
        networks: paths.networks(),
        ..Outside::default()
    })
}

/// How the host itself gets out.
fn upstream(environment: &Environment) -> Result<Upstream, Failure> {
    let named = PROXIES.iter().find_map(|name| Some((*name, environment.get(name)?)));
    let proxy = named.map(|(name, value)| {
        let parsed = value.to_str().and_then(|it| it.parse::<ProxyAddress>().ok());
        // Not repeated: it may hold a password.
        parsed.ok_or_else(|| {
            let what = format!("{name} names a proxy that cannot be used");
            Failure::new(Code::BadValue, what)
                .hint("write http://[USER:PASSWORD@]HOST[:PORT], or unset it")
        })
    });
    let direct = environment.get("NO_PROXY").or_else(|| environment.get("no_proxy"));
    let direct = direct.and_then(OsStr::to_str).unwrap_or_default();
    let files = environment.get("NODE_EXTRA_CA_CERTS").map(PathBuf::from);
    Ok(Upstream {
        proxy: proxy.transpose()?,
        direct: direct
            .split(',')
            .map(|it| it.trim().to_owned())
            .filter(|it| !it.is_empty())
            .collect(),
        roots: Vec::new(),
        files: files.into_iter().collect(),
    })
}

/// Secrets from where the user keeps them. No value is ever part of a message.
struct HostSecrets(Environment);

impl Secrets for HostSecrets {
    fn value(&self, binding: &SecretBinding) -> Result<Secret, String> {
        let text = match &binding.source {
            SecretSource::Variable(name) => {
                let value =
                    self.0.get(name).ok_or_else(|| format!("{name} is not set here"))?;
                value.to_str().ok_or_else(|| format!("{name} is not text"))?.to_owned()
            }
            SecretSource::File(path) => {
                let path = self.expand(path);
                let read = File::open(&path).and_then(read_text);
                read.map_err(|error| format!("`{}`: {error}", shown(&path)))?
            }
            SecretSource::Command(line) => {
                output(line).map_err(|error| format!("its command failed: {error}"))?
            }
        };
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        if text.is_empty() {
            return Err("it is empty".to_owned());
        }
        if text.contains(|it: char| it.is_ascii_control()) {
            return Err(
                "it has more than one line, or a character that no header has".to_owned()
            );
        }
        Ok(Secret::new(text))
    }
}

impl HostSecrets {
    /// `~/` is the caller's home.
    fn expand(&self, path: &Path) -> PathBuf {
        let home = path.strip_prefix("~").ok().zip(self.0.home());
        home.map_or_else(|| path.to_owned(), |(rest, home)| home.join(rest))
    }
}

fn read_text(from: impl io::Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(MOST + 1).read_to_string(&mut text)?;
    if MOST < u64::try_from(text.len()).unwrap_or(u64::MAX) {
        return Err(io::Error::other("it is longer than 64 KiB"));
    }
    Ok(text)
}

/// What a command of the user's prints.
fn output(line: &str) -> io::Result<String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the user names a command that knows the secret"
    )]
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let printed = child.stdout.take().map(read_text).transpose();
    let status = child.wait()?;
    if !status.success() {
        return Err(io::Error::other(format!("{status}")));
    }
    Ok(printed?.unwrap_or_default())
}
