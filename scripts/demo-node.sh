#!/usr/bin/env bash
# Two sites on this machine, one job between them whose node is killed half-way, and its report.
# Leaves nothing behind but the report: keys, data and state are in a temporary directory.
set -euo pipefail
cd "$(dirname "$0")/.."

godwit=${GODWIT:-$PWD/target/release/godwit}
if [ ! -x "$godwit" ]; then
    echo "demo-node: $godwit is missing: run make build" >&2
    exit 1
fi
report=${1:-$PWD/target/demo-report.html}

work=$(mktemp -d "${TMPDIR:-/tmp}/godwit-demo-node.XXXXXX")
pids=()
clean_up() {
    for pid in "${pids[@]}"; do
        kill -9 "$pid" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

say() { printf '\n== %s\n' "$*"; }
at() {
    local site=$1
    shift
    GODWIT_HOME=$work/$site/home "$godwit" "$@"
}

# Starts the node of a site; waits for its address ($address) and until its API answers.
start_node() {
    local site=$1 listen=$2 log=$work/$1/node.log
    mkdir -p "$work/$site/data"
    : >"$log"
    GODWIT_HOME=$work/$site/home "$godwit" serve --listen "$listen" --export "data=$work/$site/data" >"$log" 2>&1 &
    pid=$!
    pids+=("$pid")
    for _ in $(seq 600); do
        address=$(sed -n 's/^listening on \([^ ]*\) as .*/\1/p' "$log")
        if [ -n "$address" ] && at "$site" node status >/dev/null 2>&1; then
            return
        fi
        if ! kill -0 "$pid" 2>/dev/null; then
            break
        fi
        sleep 0.1
    done
    echo "demo-node: the node of $site did not start:" >&2
    cat "$log" >&2
    exit 1
}

say "Two sites, each with a node that exports a directory"
start_node siteB 127.0.0.1:0
address_b=$address
start_node siteA 127.0.0.1:0
address_a=$address
pid_a=$pid
echo "siteA at $address_a, siteB at $address_b"

say "siteB lets the node of siteA in, and siteA learns where siteB is"
at siteB access allow "$(at siteA id)" --export data --read --write
at siteA site add siteB "$address_b" --identity "$(at siteB id)"
at siteA site list

say "A data set at siteA"
at siteA gen '2000x1KiB..64KiB,40x1MiB..8MiB,1x128MiB' "$work/siteA/data/run42" --seed 7
total=$(find "$work/siteA/data/run42" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')

say "A job: from here to siteB"
id=$(at siteA job submit here:/data/run42 siteB:/data/run42 --label night-42 --limit 100MB/s)
echo "job $id"

say "Half-way the node of siteA is killed without warning, and started again"
moved() {
    at siteA job show "$id" --json 2>/dev/null | sed -n 's/.*"progress":{[^}]*"bytes":\([0-9]*\).*/\1/p;s/^ *"bytes": \([0-9]*\),*$/\1/p' | head -n 1
}
for _ in $(seq 600); do
    bytes=$(moved)
    if [ "${bytes:-0}" -ge $((total / 2)) ]; then
        break
    fi
    sleep 0.1
done
kill -9 "$pid_a"
wait "$pid_a" 2>/dev/null || true
start_node siteA "$address_a"
at siteA job limit "$id" none
at siteA job list

say "The job goes on by itself"
at siteA job watch "$id"
at siteA job show "$id"

say "What arrived is what was sent"
diff -r "$work/siteA/data/run42" "$work/siteB/data/run42"
echo "identical: $(find "$work/siteB/data/run42" -type f | wc -l) files, $total bytes"

mkdir -p "$(dirname "$report")"
at siteA job report "$id" --html "$report"
echo "the report of the job: $report"
