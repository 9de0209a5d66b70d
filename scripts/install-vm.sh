#!/bin/sh
# Installs what `cargo xtask vm` needs on a Debian host. Does nothing where all of it is there.
set -eu

packages="apt dpkg e2fsprogs fakeroot mmdebstrap qemu-system-x86 tar uidmap util-linux"

missing=""
for package in $packages; do
    state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done

sudo=""
[ "$(id -u)" = 0 ] || sudo=sudo

# The guest is made from the same lists, so they are needed even where nothing is missing.
if [ -n "$missing" ] || ! apt-cache show linux-image-amd64 >/dev/null 2>&1; then
    $sudo apt-get update --quiet=2
fi
if [ -n "$missing" ]; then
    # $missing is a list: it must be split into words.
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install --quiet=2 --yes --no-install-recommends $missing
fi

if command -v rustup >/dev/null; then
    rustup --quiet target add x86_64-unknown-linux-musl
fi
echo "the virtual machine has what it needs"
