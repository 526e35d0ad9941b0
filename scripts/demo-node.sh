#!/usr/bin/env bash
# Two sites on this machine, one job between them whose node is killed half-way, and its report.
# Leaves nothing behind but the report: keys, data and state are in a temporary directory.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/demo-frame.sh
report=${1:-$PWD/target/demo-report.html}

say "Two sites, each with a node that exports a directory"
for site in siteB siteA; do
    start_node "$site" "$work/$site/data" 127.0.0.1:0
done
echo "siteA at ${addresses[siteA]}, siteB at ${addresses[siteB]}"

say "siteB lets the node of siteA in, and siteA learns where siteB is"
at siteB access allow "$(at siteA id)" --export data --read --write
at siteA site add siteB "${addresses[siteB]}" --identity "$(at siteB id)"
at siteA site list

say "A data set at siteA"
at siteA gen '2000x1KiB..64KiB,40x1MiB..8MiB,1x128MiB' "$work/siteA/data/run42" --seed 7
total=$(bytes_below "$work/siteA/data/run42")

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
kill_node siteA
start_node siteA "$work/siteA/data" "${addresses[siteA]}"
at siteA job limit "$id" none
at siteA job list

say "The job resumes"
at siteA job watch "$id"
at siteA job show "$id"

say "What arrived is what was sent"
diff -r "$work/siteA/data/run42" "$work/siteB/data/run42"
echo "identical: $(find "$work/siteB/data/run42" -type f | wc -l) files, $total bytes"

mkdir -p "$(dirname "$report")"
at siteA job report "$id" --html "$report"
echo "the report of the job: $report"
