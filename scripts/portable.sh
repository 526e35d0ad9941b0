#!/usr/bin/env bash
# Builds the program for machines other than this one, stripped, and prints its path.
# glibc: for any Linux on x86_64 with glibc 2.28 (RHEL 8, Debian 10) or later. static: without any library of the machine (musl).
# usage: portable.sh glibc|static; PROFILE names another profile than release
set -euo pipefail
cd "$(dirname "$0")/.."

oldest=2.28
profile=${PROFILE:-release}
case ${1:-} in
    glibc) target=x86_64-unknown-linux-gnu wanted=$target.$oldest ;;
    static) target=x86_64-unknown-linux-musl wanted=$target ;;
    *)
        echo "usage: portable.sh glibc|static" >&2
        exit 2
        ;;
esac

# Zig compiles the C parts and links. It brings the libraries of every target.
zigbuild=$(scripts/tool.sh cargo-zigbuild)
CARGO_ZIGBUILD_ZIG_PATH=$(scripts/tool.sh zig)
export CARGO_ZIGBUILD_ZIG_PATH
# The caches of both tools stay in the checkout.
export XDG_CACHE_HOME=$PWD/target/tools/cache

if command -v rustup >/dev/null; then
    rustup target list --installed | grep -qx "$target" || rustup target add "$target" >&2
fi

# A folder for each: builds that differ in the linker share nothing.
place=target/portable/$1
"$zigbuild" zigbuild --profile "$profile" --locked --target "$wanted" --target-dir "$place/build" --package godwit >&2
scripts/stripped.sh "$place/build/$target/$profile/godwit" "$place/godwit"

case $1 in
    glibc)
        newest=$(objdump -T "$place/godwit" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
        if [ "$(printf '%s\n' "GLIBC_$oldest" "$newest" | sort -V | tail -1)" != "GLIBC_$oldest" ]; then
            echo "portable: the program asks for $newest, which machines with glibc $oldest do not have" >&2
            exit 1
        fi
        ;;
    static)
        if readelf --program-headers "$place/godwit" | grep -q INTERP; then
            echo "portable: the program asks for libraries of the machine" >&2
            exit 1
        fi
        ;;
esac
"$place/godwit" --version >&2
echo "$place/godwit"
