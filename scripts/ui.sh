#!/usr/bin/env bash
# Builds the page of a node from ui/ into ui/dist, which is committed and becomes part of the binary.
# Usage: ui.sh [build|deps|if-possible]. `if-possible` leaves the committed page as it is where there is no Node.
set -euo pipefail
cd "$(dirname "$0")/../ui"

what=${1:-build}
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    if [ "$what" = if-possible ]; then
        echo "ui: no Node here: the committed page is used"
        exit 0
    fi
    echo "ui: node and npm are missing: install them (Debian: apt-get install nodejs npm)" >&2
    exit 1
fi

# What package.json asks for; the Node of Debian 12 is older.
if ! node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'; then
    if [ "$what" = if-possible ]; then
        echo "ui: Node $(node --version) is older than 20.19: the committed page is used"
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

npm run --silent types
npm run --silent check
npm run --silent build
