//! `bulkhead image bootstrap`: the default image for agents, out of Debian's packages.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bulkhead_image::{build, dockerfile::USER, pack_rootfs};
use bulkhead_spec::Bytes;
use serde_json::{Value, json};

use super::{daemon, scan::installed};
use crate::{
    args::image::BootstrapArgs,
    codes::Code,
    config::{ConfigError, Environment, Paths, Who, shown},
    engine,
    failure::Failure,
    printer::Printer,
};

/// What an agent works with. `images/agent/Dockerfile` lists the same.
const PACKAGES: &[&str] = &[
    "ca-certificates",
    "curl",
    "g++",
    "gcc",
    "git",
    "jq",
    "less",
    "libc6-dev",
    "make",
    "nodejs",
    "npm",
    "openssh-client",
    "patch",
    "pkg-config",
    "procps",
    "python3",
    "python3-pip",
    "python3-venv",
    "ripgrep",
    "unzip",
    "xz-utils",
];

/// Texts for people, which are not unpacked.
const EXCLUDED: &[&str] = &[
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/lintian/*",
    "/usr/share/bash-completion/*",
];

/// What packages bring and no agent misses, removed once they are configured: link-time
/// optimisation, sanitizers and profilers of the compilers, static libraries of OpenSSL, encodings
/// and headers of Perl, types and bundlers that npm is packaged with, caches and logs.
const REMOVED: &[&str] = &[
    "usr/bin/*-lto-dump*",
    "usr/bin/*-gprofng*",
    "usr/bin/*-dwp",
    "usr/lib/gcc/*/*/lto1",
    "usr/lib/gcc/*/*/*san.a",
    "usr/lib/*/lib*san.so*",
    "usr/lib/*/libgprofng*",
    "usr/lib/*/gprofng",
    "usr/lib/*/libcrypto.a",
    "usr/lib/*/libssl.a",
    "usr/lib/*/perl/*/CORE/*.h",
    "usr/lib/*/perl/*/auto/Encode/[JKCT][PRNW]",
    "usr/share/perl/*/pod",
    "usr/lib/python3*/test",
    "usr/share/nodejs/@types",
    "usr/share/nodejs/webpack",
    "usr/share/nodejs/web-streams-polyfill",
    "usr/share/nodejs/eslint",
    "usr/share/nodejs/terser",
    "usr/share/nodejs/caniuse-lite",
    "usr/share/nodejs/core-js*",
    "var/cache/*",
    "var/log/*",
    "var/lib/apt/lists/*",
    "etc/machine-id",
    "etc/hostname",
    "etc/resolv.conf",
];

/// Makes the image.
pub(super) fn run(
    args: &BootstrapArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let words = args.packages.iter().chain([&args.suite]);
    if let Some(odd) = words.into_iter().find(|it| !is_name(it)) {
        let odd = bulkhead_spec::escape(odd);
        return Err(Failure::new(Code::Argument, format!("`{odd}` is no name of Debian's")));
    }
    let program = installed("mmdebstrap", environment).ok_or_else(|| {
        Failure::new(Code::Argument, "mmdebstrap is not installed")
            .hint("on Debian and Ubuntu: apt-get install mmdebstrap")
    })?;
    let runtime = engine::runtime()?;
    let daemon = match &args.output {
        Some(_) => None,
        None => runtime.block_on(daemon::connect(environment)).ok(),
    };
    let failed = |error: io::Error| {
        Failure::new(Code::ImageBuild, "could not make the image").because(error)
    };
    let scratch = tempfile::Builder::new().prefix("bulkhead-").tempdir().map_err(failed)?;
    let tree = scratch.path().join("tree.tar");
    printer.note(&format!("asking Debian {} for {} packages", args.suite, PACKAGES.len()));
    strap(&program, args, &tree)?;
    let mut plain = File::open(&tree).map_err(failed)?;
    let mut packed = tempfile::tempfile().map_err(failed)?;
    let (id, size) =
        pack_rootfs(&mut plain, &args.tag, &config(), &mut packed).map_err(failed)?;
    let place = match daemon {
        Some(daemon) => {
            let loaded = runtime.block_on(build::load(&daemon.docker, packed));
            loaded.map_err(|error| super::build::failed(&error))?;
            args.tag.clone()
        }
        None => store(args, environment, packed).map(|it| shown(&it))?,
    };
    tell(args, printer, &place, &id, size)
}

fn tell(
    args: &BootstrapArgs,
    printer: &Printer,
    place: &str,
    id: &str,
    size: u64,
) -> Result<u8, Failure> {
    let text = if args.json {
        let all = json!({ "schema_version": 1, "image": place, "id": id, "size": size });
        format!("{all}\n")
    } else {
        printer.note(&format!("{} holds {}", args.tag, Bytes(size)));
        format!("{place}\n")
    };
    printer.payload(&text)?;
    Ok(0)
}

/// Only what can be in the name of a package or a suite, so that none is taken for a flag.
fn is_name(text: &str) -> bool {
    let plain = |it: char| it.is_ascii_alphanumeric() || "+-.:".contains(it);
    text.starts_with(|it: char| it.is_ascii_alphanumeric()) && text.chars().all(plain)
}

/// Unpacks and configures the packages into an archive.
#[expect(clippy::disallowed_methods, reason = "the tool that makes Debian's trees")]
fn strap(program: &Path, args: &BootstrapArgs, tree: &Path) -> Result<(), Failure> {
    let more = args.packages.iter().map(String::as_str);
    let packages: Vec<&str> = PACKAGES.iter().copied().chain(more).collect();
    let user = format!(
        "printf 'sandbox:x:{USER}:{USER}::/home/sandbox:/bin/bash\\n' >> \"$1/etc/passwd\" && \
         printf 'sandbox:x:{USER}:\\n' >> \"$1/etc/group\" && \
         mkdir -p \"$1/home/sandbox\" \"$1/workspace\" && \
         chown {USER}:{USER} \"$1/home/sandbox\" \"$1/workspace\""
    );
    let trim = format!(
        "cd \"$1\" && rm -rf {} && find . -xdev -name __pycache__ -type d -prune \
         -exec rm -rf {{}} +",
        REMOVED.join(" ")
    );
    let mut command = Command::new(program);
    command
        .args(["--quiet", "--variant=minbase", "--format=tar"])
        .arg("--aptopt=Apt::Install-Recommends \"false\"")
        // The tree is thrown away if the machine goes down, so no file needs to be on the disk.
        .arg("--dpkgopt=force-unsafe-io")
        .args(EXCLUDED.iter().map(|it| format!("--dpkgopt=path-exclude={it}")))
        .arg(format!("--include={}", packages.join(",")))
        .arg(format!("--customize-hook={user}"))
        .arg(format!("--customize-hook={trim}"))
        .arg(&args.suite)
        .arg(tree)
        // From where this machine has its own packages.
        .args(sources())
        .env("SOURCE_DATE_EPOCH", "315532800")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let output = command.stderr(Stdio::piped()).output().map_err(|error| {
        Failure::new(Code::System, "could not start mmdebstrap").because(error)
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let failure = Failure::new(Code::ImageBuild, "mmdebstrap did not make a tree");
    let last: Vec<&str> = said.lines().rev().take(5).collect();
    let failure =
        last.iter().rev().fold(failure, |it, line| it.because(bulkhead_spec::escape(line)));
    Err(failure.hint("as an ordinary user it needs user namespaces; see `bulkhead doctor`"))
}

/// The lists of sources of this machine, if it is a Debian.
fn sources() -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/etc/apt/sources.list")];
    let more = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    found.extend(more.map(|it| it.path()));
    found.retain(|it| {
        let known = it.extension().is_some_and(|it| it == "list" || it == "sources");
        known && it.is_file()
    });
    found.sort();
    found
}

/// How programs start in it.
fn config() -> Value {
    json!({
        "User": format!("{USER}:{USER}"),
        "WorkingDir": "/workspace",
        "Env": [
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG=C.UTF-8",
            "HOME=/home/sandbox",
        ],
        "Cmd": ["/bin/bash"],
        "Labels": {
            "org.opencontainers.image.title": "bulkhead agent",
            "org.opencontainers.image.description":
                "Python, Node.js, git, ripgrep, curl and build tools for agents",
            build::MANAGED: "image",
        },
    })
}

/// Without a daemon the image is a file, which the native backend runs as well.
fn store(
    args: &BootstrapArgs,
    environment: &Environment,
    mut packed: File,
) -> Result<PathBuf, Failure> {
    let usual = || -> Result<PathBuf, Failure> {
        let paths = Paths::find(environment, Who::current());
        Ok(paths.data.ok_or(ConfigError::Homeless)?.join("images/agent.tar"))
    };
    let path = args.output.clone().map_or_else(usual, Ok)?;
    let mut write = || -> io::Result<()> {
        if let Some(dir) = path.parent().filter(|it| *it != Path::new("")) {
            fs::create_dir_all(dir)?;
        }
        io::Seek::rewind(&mut packed)?;
        let fresh = path.with_extension(format!("{}.new", std::process::id()));
        let mut file = File::create_new(&fresh)?;
        let written = io::copy(&mut packed, &mut file).and_then(|_| fs::rename(&fresh, &path));
        if written.is_err() {
            fs::remove_file(&fresh)?;
        }
        written
    };
    write().map_err(|error| {
        Failure::new(Code::ImageBuild, format!("could not write `{}`", shown(&path)))
            .because(error)
    })?;
    Ok(path)
}
