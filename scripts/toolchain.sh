#!/usr/bin/env bash
# Makes sure that Rust can build Bulkhead: new enough, with a linker, a C compiler and the standard
# library for static programs (musl), which Bulkhead and the guest inside every sandbox are.
# Asks the network only for what is missing. Usage: toolchain.sh [COMPONENT…], such as rustfmt and clippy.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    printf '%s: %s\n' "$(basename "$0" .sh)" "$1" >&2
    shift
    [ $# -eq 0 ] || printf 'hint: %s\n' "$@" >&2
    exit 1
}

[ "$(uname -s)" = Linux ] || fail "Bulkhead is for Linux, this is $(uname -s)"
arch=$(uname -m)
case "$arch" in
    x86_64 | aarch64) ;;
    *) fail "Bulkhead is for x86_64 and aarch64, this is $arch" ;;
esac
target=$arch-unknown-linux-musl

for program in cargo rustc; do
    command -v "$program" >/dev/null ||
        fail "there is no $program on the PATH" "install Rust with rustup: https://rustup.rs"
done
command -v cc >/dev/null ||
    fail "there is no C compiler, which Rust links with" "apt-get install gcc libc6-dev"

# Some of what is linked in is C, and a static program needs it compiled for musl.
if ! command -v musl-gcc >/dev/null; then
    as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    command -v apt-get >/dev/null ||
        fail "there is no musl-gcc, a C compiler for static programs" "install your distribution's package of musl's tools"
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null ||
        fail "there is no musl-gcc, a C compiler for static programs" "as root: apt-get install musl-tools"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update --quiet=2
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install --quiet=2 --yes --no-install-recommends musl-tools </dev/null
fi

needed=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
found=$(rustc --version | cut -d' ' -f2)
if [ "$(printf '%s\n' "$needed" "$found" | sort -V | head -n1)" != "$needed" ]; then
    fail "Rust $needed or newer is needed, this is $found" "rustup update stable"
fi

# Looked for as a file, so that a distribution's own packages count too, and nothing is asked
# of the network where it is there.
has_target() {
    local libraries
    libraries=$(rustc --print target-libdir --target "$target") || return 1
    compgen -G "$libraries/libstd-*.rlib" >/dev/null
}
if ! has_target; then
    command -v rustup >/dev/null ||
        fail "Rust's standard library for $target is missing, and there is no rustup to add it" \
            "install Rust with rustup (https://rustup.rs), or your distribution's package for $target"
    rustup target add "$target"
fi

for component in "$@"; do
    cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1 && continue
    command -v rustup >/dev/null ||
        fail "$component is missing, and there is no rustup to add it" "install Rust with rustup: https://rustup.rs"
    rustup component add "$component"
done
