#!/usr/bin/env bash
# Two sites of three nodes each on this machine; all nodes of one bring a data set to the other, and one is killed half-way.
# Leaves nothing behind: keys, data and state are in a temporary directory.
set -euo pipefail
cd "$(dirname "$0")/.."

godwit=${GODWIT:-$PWD/target/release/godwit}
if [ ! -x "$godwit" ]; then
    echo "demo-cluster: $godwit is missing: run make build" >&2
    exit 1
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/godwit-demo-cluster.XXXXXX")
declare -A pids=() addresses=()
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
    local node=$1
    shift
    GODWIT_HOME=$work/$node "$godwit" "$@"
}

# Starts a node of a site, whose nodes share one directory; waits until its API answers.
start_node() {
    local site=$1 node=$2 log=$work/$2.log
    shift 2
    mkdir -p "$work/data-$site"
    : >"$log"
    GODWIT_HOME=$work/$node "$godwit" serve --listen 127.0.0.1:0 --export "data=$work/data-$site" "$@" >"$log" 2>&1 &
    pids[$node]=$!
    for _ in $(seq 600); do
        addresses[$node]=$(sed -n 's/^listening on \([^ ]*\) as .*/\1/p' "$log")
        if [ -n "${addresses[$node]}" ] && at "$node" node status >/dev/null 2>&1; then
            return
        fi
        if ! kill -0 "${pids[$node]}" 2>/dev/null; then
            break
        fi
        sleep 0.1
    done
    echo "demo-cluster: the node $node did not start:" >&2
    cat "$log" >&2
    exit 1
}

# A site: one node, and two that join it by invitations.
start_site() {
    local site=$1 first=${1}1
    start_node "$site" "$first"
    for number in 2 3; do
        (umask 077 && at "$first" cluster invite >"$work/token" 2>/dev/null)
        start_node "$site" "$site$number" --name "$site$number" \
            --join "${addresses[$first]}" --token-file "$work/token"
    done
    for _ in $(seq 600); do
        if [ "$(at "$first" cluster status --json | grep -o '"votes":true' | wc -l)" = 3 ]; then
            return
        fi
        sleep 0.1
    done
    echo "demo-cluster: the nodes of $site do not become one cluster" >&2
    at "$first" cluster status >&2
    exit 1
}

say "Two sites of three nodes; the nodes of a site share a directory"
start_site a
start_site b
at a2 cluster status

say "Site b lets the nodes of site a in; any node of a learns where b is"
for node in a1 a2 a3; do
    at b1 access allow "$(at "$node" id)" --export data --read --write 2>/dev/null
done
at a3 site add siteB "${addresses[b1]}" --identity "$(at b1 id)"

say "A data set at site a"
at a1 gen '1500x1KiB..64KiB,20x1MiB..4MiB' "$work/data-a/run42" --seed 7
total=$(find "$work/data-a/run42" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')

say "A job, given to any node: all nodes of site a work on it"
id=$(at a2 job submit here:/data/run42 siteB:/data/run42 --label night-42 --limit 5MB/s)
echo "job $id"
for _ in $(seq 600); do
    runner=$(at a2 job show "$id" | sed -n 's/^node  *//p')
    [ -n "$runner" ] && break
    sleep 0.1
done
sleep 2
# The first node of a cluster is called node1.
victim=${runner/node1/a1}
at a2 cluster status

say "The node that controls the job ($runner) is killed without warning"
kill -9 "${pids[$victim]}"
for asked in a1 a2 a3; do
    [ "$asked" != "$victim" ] && break
done
at "$asked" job limit "$id" none >/dev/null 2>&1 || true

say "The others go on with it"
at "$asked" job watch "$id"
at "$asked" job limit "$id" none >/dev/null 2>&1 || true
at "$asked" cluster status
at "$asked" job show "$id"

say "What arrived is what was sent"
diff -r "$work/data-a/run42" "$work/data-b/run42"
echo "identical: $(find "$work/data-b/run42" -type f | wc -l) files, $total bytes"
