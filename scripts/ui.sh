#!/usr/bin/env bash
# Builds the page of a node from ui/ into ui/dist, which is committed and becomes part of the binary.
# Usage: ui.sh [build|deps|check|if-possible]. `check` only looks for mistakes. Where there is no Node,
# `check` and `if-possible` leave the page as it is.
set -euo pipefail
cd "$(dirname "$0")/../ui"

what=${1:-build}
# Whether a machine that cannot build the page is no failure, and what this means there.
case $what in
    check) without="the page is NOT checked" ;;
    if-possible) without="the committed page is used" ;;
    *) without= ;;
esac
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    if [ -n "$without" ]; then
        echo "ui: no Node here: $without"
        exit 0
    fi
    echo "ui: node and npm are missing: install them (Debian: apt-get install nodejs npm)" >&2
    exit 1
fi

# package.json asks for this version. The Node of Debian 12 is older.
if ! node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'; then
    if [ -n "$without" ]; then
        echo "ui: Node $(node --version) is older than 20.19: $without"
        exit 0
    fi
    echo "ui: Node $(node --version) is too old: the page needs 20.19 or newer to be built and tested" >&2
    exit 1
fi

# The packages, as package-lock.json names them. Tests that run at the same time install them once.
exec 9<.
flock 9
stamp=node_modules/.stamp
if [ ! -e "$stamp" ] || [ package-lock.json -nt "$stamp" ]; then
    npm ci --ignore-scripts --no-progress --loglevel=error
    touch "$stamp"
fi
flock -u 9
[ "$what" = deps ] && exit 0

if [ "$what" = check ]; then
    npm run --silent check
    exit
fi
npm run --silent types
npm run --silent check
npm run --silent build
