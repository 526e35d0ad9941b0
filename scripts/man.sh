#!/usr/bin/env bash
# Writes the man pages. For root, the program refuses a directory that another user could replace, as in the source tree of that user.
# So the pages are made in a directory of the caller, and installed from there.
# usage: man.sh PROGRAM DIRECTORY
set -euo pipefail

if [ $# -ne 2 ]; then
    echo "usage: man.sh PROGRAM DIRECTORY" >&2
    exit 2
fi
program=$1
directory=$2

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$program" man "$made"
install -d "$directory"
install -m 644 -t "$directory" "$made"/*
