//! Programs that install packages, from registries of the test's own.

use std::path::{Path, PathBuf};

use bulkhead_spec::{Access, GuestPath, HostPath, Mount};

use super::{Ask, House, NO_PROXY, house, out};

/// What `script` prints, first with proxies named and then without.
async fn installs(
    host: &str,
    script: &str,
    expected: &str,
    change: impl Fn(&House, Ask) -> Ask,
) {
    let (house, _world) = house();
    let both = format!("{script}\n{NO_PROXY}\n{script}");
    let said = house.says(change(&house, out(&house, &[host], &both))).await;
    assert_eq!(said, expected.repeat(2));
}

/// Shows `dir` inside, at its own place.
pub(super) fn showing(mut ask: Ask, dir: &Path) -> Ask {
    let real = dir.canonicalize().unwrap();
    ask.spec.mounts.push(Mount {
        from: HostPath::try_from(real.clone()).unwrap(),
        to: GuestPath::try_from(real).unwrap(),
        access: Access::ReadOnly,
    });
    ask
}

#[tokio::test]
#[ignore = "needs what scripts/install-sdks.sh installs"]
async fn pip_installs_from_an_index() {
    let sdks = sdks();
    let show = |_: &House, ask| showing(ask, &sdks);
    installs("pip.example.com", &pip(&sdks), "hello from pip\n", show).await;
}

/// Where the clients are that tests have installed.
pub(super) fn sdks() -> PathBuf {
    let sdks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/sdks/clients");
    sdks.canonicalize().unwrap()
}

pub(super) fn pip(sdks: &Path) -> String {
    format!(
        "rm -rf got; {}/bin/python -m pip --disable-pip-version-check --no-cache-dir install -q \
           --cert ca.pem --index-url https://pip.example.com/simple --target got hello
         PYTHONPATH=got /usr/bin/python3 -c 'import hello'",
        sdks.display()
    )
}

pub(super) const NPM: &str = "rm -rf got; mkdir got; cd got; echo '{}' > package.json
        npm install --silent --no-audit --no-fund --no-update-notifier --cache $PWD/cache \
          --cafile ../ca.pem --registry https://npm.example.com/hello-npm/ hello
        node -e 'require(\"hello\")'; cd ..";

#[tokio::test]
async fn npm_installs_from_a_registry() {
    installs("npm.example.com", NPM, "hello from npm\n", |_, ask| ask).await;
}

#[tokio::test]
async fn cargo_fetches_from_a_registry() {
    let (script, toolchain) = cargo();
    let show = |_: &House, ask| showing(ask, &toolchain);
    installs("crates.example.com", &script, "hello from cargo\n", show).await;
}

/// A script that fetches with cargo, and the toolchain that it needs.
pub(super) fn cargo() -> (String, PathBuf) {
    // The toolchain that runs this test.
    let cargo = std::env::var_os("CARGO").expect("cargo runs the tests");
    let cargo = Path::new(&cargo).canonicalize().unwrap();
    let toolchain = cargo.ancestors().nth(2).unwrap().to_owned();
    let script = format!(
        "rm -rf got; mkdir -p got/src got/.cargo; cd got; echo > src/lib.rs
         printf '[package]\\nname = \"got\"\\nversion = \"1.0.0\"\\n[dependencies]\\nhello = {{ version = \"1\", registry = \"own\" }}\\n' > Cargo.toml
         printf '[registries.own]\\nindex = \"sparse+https://crates.example.com/index/\"\\n' > .cargo/config.toml
         RUSTC={} CARGO_HOME=$PWD/home CARGO_HTTP_CAINFO=$PWD/../ca.pem {} fetch -q
         cat home/registry/src/*/hello-1.0.0/src/lib.rs | cut -d'\"' -f2; cd ..",
        toolchain.join("bin/rustc").display(),
        cargo.display()
    );
    (script, toolchain)
}
