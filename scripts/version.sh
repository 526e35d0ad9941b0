#!/usr/bin/env bash
# Prints the version of this tree. The workspace, the Python client and the first heading of CHANGELOG.md must have the same.
# At a tag `v…`, the tag must have it too, the heading must have its date, and the tree must be clean.
# usage: version.sh
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "version: $1" >&2
    exit 1
}

# The first `version = "…"` below a heading of a TOML file.
version_in() {
    sed -n "/^\[$2\]/,/^\[/s/^version = \"\(.*\)\"/\1/p" "$1"
}

version=$(version_in Cargo.toml 'workspace\.package')
[ -n "$version" ] || fail "Cargo.toml names no version of the workspace"
python=$(version_in python/pyproject.toml project)
[ "$python" = "$version" ] || fail "Cargo.toml has version $version, python/pyproject.toml has ${python:-none}"

heading=$(grep -m 1 '^## ' CHANGELOG.md || true)
case $heading in
    "## [$version] - "*) ;;
    *) fail "Cargo.toml has version $version, but the first heading of CHANGELOG.md is: ${heading:-none}" ;;
esac

tags=$(git tag --points-at HEAD --list 'v*')
if [ -n "$tags" ]; then
    grep -qxF "v$version" <<<"$tags" || fail "Cargo.toml has version $version, but the tag of this commit is: $tags"
    [[ $heading =~ \ -\ [0-9]{4}-[0-9]{2}-[0-9]{2}$ ]] || fail "at tag v$version the heading of CHANGELOG.md needs the date: $heading"
    changed=$(git status --porcelain)
    [ -z "$changed" ] || fail "at tag v$version the tree must be clean; commit, restore or remove these files: $changed"
fi
echo "$version"
