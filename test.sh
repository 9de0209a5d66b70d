#!/usr/bin/env bash
# Installs what the tests need and runs all of them; the last lines say how many passed.
#
#   --quick   without clippy
#   --vm      also in a virtual machine with cgroup v2 and a systemd user session
#   --images  also real tests of four languages in images that `image init` describes
#   --soak    also 500 sandboxes at once, with a look at what they leave behind, and a file of 4 GiB
#
# As root, the native backend is tried as root and as an ordinary user; as an ordinary user, only
# as that one, and packages that are missing are installed with sudo.
set -euo pipefail
cd "$(dirname "$0")"

quick=no vm=no soak=no images=no
for flag in "$@"; do
    case "$flag" in
        --quick) quick=yes ;;
        --vm) vm=yes ;;
        --soak) soak=yes ;;
        --images) images=yes ;;
        -h | --help)
            sed -n '2,/^set /s/^# \{0,1\}//p' "$0"
            exit 0
            ;;
        *)
            echo "test: \`$flag\` is not known; there are --quick, --vm, --images and --soak" >&2
            exit 2
            ;;
    esac
done

say() { printf '\n== %s\n' "$*"; }

# The system's own programs, because tests run with a PATH of the system: a python3 of pyenv in
# somebody's home does not count.
has() {
    [ -x "/usr/local/bin/$1" ] || [ -x "/usr/bin/$1" ] || [ -x "/bin/$1" ] || [ -x "/usr/sbin/$1" ]
}

# Debian's packages for what is not here yet: what is tried inside a sandbox.
missing_packages() {
    has git || echo git
    has gcc || echo gcc libc6-dev
    has make || echo make
    has python3 || echo python3
    /usr/bin/python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
    has node || echo nodejs
    has npm || echo npm
    has javac || echo default-jdk-headless
    has ssh || echo openssh-client
    has sshd || echo openssh-server
    has curl || echo curl
    has openssl || echo openssl
    has strace || echo strace
    has gdb || echo gdb
    # unshare, as something that the filter must refuse.
    has unshare || echo util-linux
    # A daemon of the tests' own, with gVisor as one of its runtimes, and trees for its images.
    has dockerd || echo docker.io
    has runsc || echo runsc
    # And Podman; daemons of an ordinary user need ids that uidmap hands out.
    has podman || echo podman
    has newuidmap || echo uidmap
    has rootlesskit || echo rootlesskit
    has mmdebstrap || echo mmdebstrap
    # Drills turn the clock.
    has faketime || echo faketime
}

install_packages() {
    local packages as_root=(env)
    mapfile -t packages < <(missing_packages | tr ' ' '\n')
    [ ${#packages[@]} -gt 0 ] || return 0
    say "apt-get install ${packages[*]}"
    if ! command -v apt-get >/dev/null; then
        echo "test: there is no apt-get; install by hand what these packages of Debian hold" >&2
        exit 1
    fi
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            echo "test: this needs root, and there is no sudo; as root: apt-get install ${packages[*]}" >&2
            exit 1
        fi
        as_root=(sudo env)
    fi
    "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get update --quiet=2
    "${as_root[@]}" DEBIAN_FRONTEND=noninteractive \
        apt-get install --quiet=2 --yes --no-install-recommends "${packages[@]}"
}

install_packages </dev/null
scripts/install-sdks.sh </dev/null
scripts/install-agents.sh </dev/null
if [ "$quick" = yes ]; then scripts/toolchain.sh rustfmt; else scripts/toolchain.sh rustfmt clippy; fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

say "cargo fmt --check"
cargo fmt --all --check

if [ "$quick" = no ]; then
    say "cargo clippy"
    cargo clippy --workspace --all-targets --locked -- -D warnings
fi

# A host that cannot build sandboxes fails instead of skipping what it cannot try. A private daemon
# needs root.
if [ "$(id -u)" -eq 0 ]; then
    export BULKHEAD_REQUIRE=native,docker,runsc,docker-user,docker-remap,podman,podman-runsc,podman-user
else
    export BULKHEAD_REQUIRE=native
fi
# A snapshot that differs fails and leaves no file behind.
export INSTA_UPDATE=no
failed=0
# Trials of one daemon share it, so they run in one process; everything else runs as it likes.
if command -v cargo-nextest >/dev/null; then
    say "cargo nextest run"
    cargo nextest run --workspace --locked --no-fail-fast \
        --filterset 'not (binary(conformance) & test(/^(docker|podman)/))' </dev/null 2>&1 | tee "$log" || failed=1
else
    say "cargo test"
    cargo test --workspace --locked --no-fail-fast -- --skip docker- --skip podman- </dev/null 2>&1 | tee "$log" || failed=1
fi
# Who is not root has no daemon of their own.
without_daemons=()
[ "$(id -u)" -eq 0 ] || without_daemons=(--skip container)
say "clients that the tests have installed"
cargo test --locked -p bulkhead-engine --test it -- --ignored clients:: "${without_daemons[@]}" </dev/null 2>&1 | tee -a "$log" || failed=1
say "agents, against models of our own"
cargo test --locked -p bulkhead --test it -- --ignored agents::claude "${without_daemons[@]}" </dev/null 2>&1 | tee -a "$log" || failed=1
say "examples in the documentation"
cargo test --locked --doc -p bulkhead </dev/null 2>&1 | tee -a "$log" || failed=1
# They start daemons of their own, which takes root.
if [ "$(id -u)" -eq 0 ]; then
    say "attacks on Docker with runc and gVisor, and as an ordinary user"
    cargo test --locked -p bulkhead-backends --test conformance -- docker </dev/null 2>&1 | tee -a "$log" || failed=1
    say "attacks on Podman with runc, crun and gVisor, and as an ordinary user"
    cargo test --locked -p bulkhead-backends --test conformance -- podman </dev/null 2>&1 | tee -a "$log" || failed=1
    say "images, in a real daemon"
    cargo test --locked -p bulkhead --test it -- --ignored image::build image::first_use e2b::an_image rooms::containers </dev/null 2>&1 | tee -a "$log" || failed=1
fi

# What may go wrong with rooms, done on purpose: kills, full disks, spoilt records.
say "cargo xtask drill --quick"
cargo build --locked -p bulkhead
cargo xtask drill --quick </dev/null || failed=1

# All runners together.
summary() {
    sed -n -e 's/^test result: [A-Za-z]*\. \([0-9]*\) passed; \([0-9]*\) failed; \([0-9]*\) ignored.*/\1 \2 \3/p' \
        -e 's/^ *Summary \[.*\] .* \([0-9]*\) passed.*, \([0-9]*\) failed.*, \([0-9]*\) skipped.*/\1 \2 \3/p' \
        -e 's/^ *Summary \[.*\] .*: \([0-9]*\) passed[^,]*, \([0-9]*\) skipped.*/\1 0 \2/p' "$log" |
        awk '{ p += $1; f += $2; i += $3 } END { printf "%d passed, %d failed, %d ignored\n", p, f, i }'
}
if [ "$images" = yes ]; then
    say "tests of four languages, in images of their own"
    cargo test --locked -p bulkhead --test it -- --ignored image::languages </dev/null || failed=1
fi

if [ "$vm" = yes ]; then
    say "cargo xtask vm test"
    scripts/install-vm.sh
    cargo xtask vm test </dev/null || failed=1
fi

if [ "$soak" = yes ]; then
    say "cargo xtask bench density --check"
    target=$(uname -m)-unknown-linux-musl
    cargo build --release --locked -p bulkhead --target "$target"
    cargo xtask bench density --check </dev/null || failed=1
    say "a file of more than 4 GiB, into a room and out of it"
    cargo test --locked -p bulkhead --test it -- --ignored rooms::copies </dev/null 2>&1 | tee -a "$log" || failed=1
fi

say "summary"
summary || echo "the tests did not get as far as a summary"
[ "$failed" -eq 0 ] && echo "all passed" || echo "something failed; see above"
exit "$failed"
