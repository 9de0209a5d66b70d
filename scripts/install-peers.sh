#!/bin/sh
# Installs the programs that `cargo xtask bench` measures Bulkhead against, and the tools of
# `cargo xtask bench work`. Safe to run again: what is there is left alone. Starts no service.
set -eu

if [ "$(id -u)" -ne 0 ]; then
    echo "install-peers: needs root (apt-get and npm -g); try: sudo $0" >&2
    exit 1
fi

# A package per line: what needs it.
packages() {
    cat <<'LIST'
bubblewrap      the first peer; `srt` calls it too
util-linux      unshare
crun            OCI runtime in C
runc            OCI runtime of docker
podman          container engine without a daemon
docker.io       docker and dockerd
runsc           gVisor
busybox-static  the root filesystem of every container peer
socat           srt refuses to start without it; a relay of `bench egress`
haproxy         a relay of `bench egress`
squid           a proxy of `bench egress`
python3-venv    mitmproxy, a proxy of `bench egress`, from PyPI
ripgrep         srt refuses to start without it
build-essential the compile job of `bench work`
git             the repository job of `bench work`
python3         the script job of `bench work`
nodejs          srt, and the node job of `bench work`
LIST
}

# A program that is already there by other means (a newer node, say) needs no package.
provided_by() {
    case "$1" in
        nodejs) command -v node ;;
        python3) command -v python3 ;;
        git) command -v git ;;
        *) dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed' ;;
    esac >/dev/null
}

missing=""
for package in $(packages | cut -d' ' -f1); do
    provided_by "$package" || missing="$missing $package"
done

if [ -n "$missing" ]; then
    echo "install-peers: apt-get install$missing"
    # The daemons of docker.io and podman are not to start with the machine: the bench starts its
    # own, on its own socket. 101 is the answer "not allowed" of invoke-rc.d(8).
    made_policy=no
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
        chmod 755 /usr/sbin/policy-rc.d
        made_policy=yes
    fi
    trap '[ "$made_policy" = no ] || rm -f /usr/sbin/policy-rc.d' EXIT
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # One by one, so that a package that a distribution lacks costs only its own row of the table.
    for package in $missing; do
        apt-get install -y -qq --no-install-recommends "$package" >/dev/null ||
            echo "install-peers: no $package from apt-get; its row will say so" >&2
    done
fi

if command -v srt >/dev/null; then
    :
elif command -v npm >/dev/null; then
    echo "install-peers: npm install -g @anthropic-ai/sandbox-runtime"
    npm install -g --silent --no-fund --no-audit @anthropic-ai/sandbox-runtime ||
        echo "install-peers: srt not installed; its row will say so" >&2
else
    echo "install-peers: no npm, so no srt; its row will say so" >&2
fi

# A library; the bench looks for it here.
llm=$(dirname "$0")/../target/peers/llm-sandbox
if [ ! -x "$llm/bin/python" ] && command -v python3 >/dev/null; then
    echo "install-peers: pip install llm-sandbox"
    mkdir -p "$(dirname "$llm")"
    { /usr/bin/python3 -m venv "$llm" && "$llm/bin/python" -m pip install --quiet \
        --disable-pip-version-check "llm-sandbox[docker]==0.3.46"; } ||
        echo "install-peers: llm-sandbox not installed; its rows will say so" >&2
fi

# In a place of its own: Debian's is older than the Python that most people install it with.
here=$(cd "$(dirname "$0")/.." && pwd)
mitmproxy=$here/target/peers/mitmproxy
if [ ! -x "$mitmproxy/bin/mitmdump" ]; then
    echo "install-peers: pip install mitmproxy"
    { python3 -m venv "$mitmproxy" &&
        "$mitmproxy/bin/pip" install --quiet --disable-pip-version-check mitmproxy; } ||
        echo "install-peers: mitmproxy not installed; its rows will say so" >&2
fi

for program in bwrap unshare crun runc podman docker dockerd runsc busybox srt socat haproxy squid; do
    path=$(command -v "$program" || true)
    printf '%-10s %s\n' "$program" "${path:-missing}"
done
