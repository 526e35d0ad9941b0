#!/usr/bin/env bash
# One site with a transfer buffer sends a data set to three sites with one read. One site is killed during the transfer, and
# then takes its data from another site. A second round comes from the buffer.
# Leaves nothing behind: keys, data and state are in a temporary directory.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/demo-frame.sh

# Starts the node of a site.
start_site() {
    local site=$1 listen=$2
    shift 2
    start_node "$site" "$work/$site/data" "$listen" "$@"
}

# A figure of the transfer buffer at siteA.
figure() { at siteA buffer status --json | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }

# The id of the job of a destination.
child() { at siteA job list --all --parent "$1" --json | grep "\"destination\":\"$2:" | grep -o '"id":"[^"]*"' | cut -d '"' -f 4 | sed -n 1p; }

# Bytes that a running job has moved.
moved() { at siteA job show "$1" --json 2>/dev/null | sed -n 's/.*"progress":{[^}]*"bytes":\([0-9]*\).*/\1/p'; }

# A job to all three sites, below this name; its id.
submit() {
    local name=$1
    shift
    at siteA job submit here:/data/run42 --to "siteB:/data/$name" --to "siteC:/data/$name" --to "siteD:/data/$name" "$@"
}

say "Four sites: siteA has a transfer buffer; the others know siteA alone, and let it read and write"
start_site siteA 127.0.0.1:0 --buffer-path "$work/siteA/flash" --buffer-bytes 1GiB
for site in siteB siteC siteD; do
    start_site "$site" 127.0.0.1:0
    at "$site" access allow "$(at siteA id)" --export data --read --write
    at siteA site add "$site" "${addresses[$site]}" --identity "$(at "$site" id)"
done
at siteA site list

say "A data set at siteA"
at siteA gen '60x1KiB..64KiB,20x1MiB..4MiB,1x64MiB' "$work/siteA/data/run42" --seed 7
# The buffer takes no file that changed a moment ago.
find "$work/siteA/data/run42" -type f -exec touch -d '1 hour ago' {} +
files=$(find "$work/siteA/data/run42" -type f | wc -l)
total=$(bytes_below "$work/siteA/data/run42")
echo "$files files, $total bytes"

say "A job to three sites, whose source is read once; half-way the node of siteD is killed"
# Slow enough for a busy machine to see it half-way.
id=$(submit run42 --label night-42 --limit 8MB/s --relay auto --retries 0 --setting retry-for=0s --setting keep-in-buffer=1h)
killed=$(child "$id" siteD)
echo "job $id, siteD by job $killed"
for _ in $(seq 600); do
    bytes=$(moved "$killed")
    if [ "${bytes:-0}" -ge $((total / 3)) ]; then
        break
    fi
    sleep 0.05
done
if [ "${bytes:-0}" -lt $((total / 3)) ]; then
    fail "siteD was not seen half-way"
fi
kill_node siteD
echo "at $bytes bytes: siteD is gone"
at siteA job limit "$id" none >/dev/null || true
at siteA job watch "$id" || true
read_once=$(figure missed_bytes)

say "siteD is back, and its job runs again: the data comes from another destination"
start_site siteD "${addresses[siteD]}"
at siteA job retry "$id"
# The relay may have begun with the limit by now.
at siteA job limit "$id" none >/dev/null || true
at siteA job watch "$id"
shown=$(at siteA job show "$killed")
echo "$shown"
grep -q 'came from the destination at site[BC]' <<<"$shown" || fail "siteD did not take its data from another destination"

say "The report of the job"
at siteA job report "$id"
read_in_all=$(figure missed_bytes)
echo "siteA read $read_once bytes of its source for three destinations, and $((read_in_all - read_once)) more for the repair, of $total"
if [ "$read_in_all" -lt "$total" ] || [ "$read_in_all" -gt $((total + total / 4)) ]; then
    fail "the source was not read once"
fi

say "What arrived is what was sent"
for site in siteB siteC siteD; do
    diff -r "$work/siteA/data/run42" "$work/$site/data/run42"
done
echo "identical at three sites: $files files, $total bytes"

say "A second round comes from the buffer"
for _ in $(seq 600); do
    if [ "$(figure bytes_filling)" -eq 0 ]; then
        break
    fi
    sleep 0.1
done
hit=$(figure hit_bytes)
id=$(submit again)
at siteA job watch "$id"
hit=$(($(figure hit_bytes) - hit))
at siteA buffer status
echo "$hit of $total bytes came from the buffer, and $(($(figure missed_bytes) - read_in_all)) from the source"
if [ "$hit" -lt $((total - total / 10)) ]; then
    fail "the second round did not come from the buffer"
fi
for site in siteB siteC siteD; do
    diff -r "$work/siteA/data/run42" "$work/$site/data/again"
done
echo "identical at three sites again"
