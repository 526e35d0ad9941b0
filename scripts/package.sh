#!/usr/bin/env bash
# Makes the Debian package of the binary that is in target/release, or of the one that is named. Prints the package's path.
# cargo-deb strips only what it has built, so the program is stripped here.
# usage: package.sh [BINARY]
set -euo pipefail
cd "$(dirname "$0")/.."

binary=${1:-target/release/godwit}
if [ ! -x "$binary" ]; then
    echo "package: $binary is missing: run make build" >&2
    exit 1
fi

deb=$(scripts/tool.sh cargo-deb)

# The manifest names the files of this directory, whichever binary is packaged.
stage=target/package
rm -rf "$stage"
mkdir -p "$stage/completions"
scripts/stripped.sh "$binary" "$stage/godwit"
scripts/man.sh "$stage/godwit" "$stage/man" >/dev/null
for shell in bash zsh fish; do
    "$stage/godwit" completions "$shell" >"$stage/completions/godwit.$shell"
done
# shellcheck disable=SC2086  # several flags
"$deb" --quiet --package godwit --no-build --locked --output target/package/ ${PACKAGE_FLAGS:-}
