#!/usr/bin/env bash
# Two sites of three nodes each on this machine; all nodes of one bring a data set to the other, and one is killed half-way.
# Leaves nothing behind: keys, data and state are in a temporary directory.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/demo-frame.sh

# A site: one node, and two that join it by invitations. The nodes share one directory.
start_site() {
    local site=$1 first=${1}1
    start_node "$first" "$work/data-$site" 127.0.0.1:0
    for number in 2 3; do
        (umask 077 && at "$first" cluster invite >"$work/token" 2>/dev/null)
        start_node "$site$number" "$work/data-$site" 127.0.0.1:0 --name "$site$number" \
            --join "${addresses[$first]}" --token-file "$work/token"
    done
    for _ in $(seq 600); do
        if [ "$(at "$first" cluster status --json | grep -o '"votes":true' | wc -l)" = 3 ]; then
            return
        fi
        sleep 0.1
    done
    at "$first" cluster status >&2
    fail "the nodes of $site do not become one cluster, see above"
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
total=$(bytes_below "$work/data-a/run42")

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
kill_node "$victim"
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
