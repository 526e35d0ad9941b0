#!/usr/bin/env bash
# Copies a program without its symbols and debug information. A program of the release profile must fit into the bound below.
# usage: stripped.sh PROGRAM COPY
set -euo pipefail

bytes_max=34000000

if [ $# -ne 2 ]; then
    echo "usage: stripped.sh PROGRAM COPY" >&2
    exit 2
fi
program=$1
copy=$2

mkdir -p "$(dirname "$copy")"
strip -o "$copy" "$program"
bytes=$(stat -c %s "$copy")
case $program in
    */release/godwit)
        if [ "$bytes" -gt "$bytes_max" ]; then
            echo "stripped: $copy has $bytes bytes; at most $bytes_max: find out which dependency brought them" >&2
            exit 1
        fi
        ;;
esac
echo "stripped: $copy has $bytes bytes" >&2
