#!/usr/bin/env bash
# Collects all that a release gives out into target/release-VERSION, from what `make package`, `make portable`, `make static` and
# scripts/python.sh left in target. SHA256SUMS there names each file. Prints the directory.
# usage: collect.sh
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(scripts/version.sh)
out=target/release-$version
machine=$(uname -m)

rm -rf "$out"
mkdir -p "$out"

install -m 644 target/package/"godwit_$version"-*.deb "$out"
install -m 755 target/portable/glibc/godwit "$out/godwit-$version-$machine-glibc"
install -m 755 target/portable/static/godwit "$out/godwit-$version-$machine-static"
for program in "$out/godwit-$version"-*; do
    said=$("$program" --version)
    if [ "$said" != "godwit $version" ]; then
        echo "collect: $program says '$said', but this tree has version $version: build it again" >&2
        exit 1
    fi
done
cp -r target/package/man target/package/completions "$out"
install -m 644 LICENSE CHANGELOG.md "$out"
scripts/licences.py "$out/licences.txt"

if [ -e "target/python/wheel/godwit-$version.tar.gz" ]; then
    install -D -m 644 -t "$out/python" target/python/wheel/"godwit-$version"*
else
    echo "collect: the Python client is NOT in $out: scripts/python.sh has built no version $version" >&2
fi

cd "$out"
mapfile -d '' files < <(find . -type f -printf '%P\0' | LC_ALL=C sort -z)
sha256sum "${files[@]}" >SHA256SUMS
echo "$out"
