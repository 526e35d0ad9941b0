#!/usr/bin/env bash
# A transfer on loopback, with TLS, whose node is killed half-way: it resumes and arrives whole.
# Leaves nothing behind: keys, data and journals are in a temporary directory.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v rsync >/dev/null; then
    echo "demo: rsync is missing, which judges the result: run scripts/setup.sh" >&2
    exit 1
fi

. scripts/demo-frame.sh

user() { at user "$@"; }
node() { at node "$@"; }

# Starts the node, shows its first lines, and waits for the one that names its address: $address.
start_shown() {
    rm -f "$work/node.log"
    mkfifo "$work/node.log"
    # Not by the function above: the process would be a shell, and killing it leaves the node.
    GODWIT_HOME=$work/node/home "$godwit" serve --listen "$1" --export "data=$work/destination" >"$work/node.log" 2>&1 &
    pids[node]=$!
    exec 3<"$work/node.log"
    address=
    local line
    while read -r line <&3; do
        echo "node: $line"
        if [[ $line =~ listening\ on\ ([^[:space:]]+:[0-9]+) ]]; then
            address=${BASH_REMATCH[1]}
            break
        fi
    done
    if [ -z "$address" ]; then
        fail "the node ended before it listened"
    fi
    # All later output is read, so that the node never waits for this script.
    cat <&3 >/dev/null &
    exec 3<&-
}

say "A data set of mixed sizes, the same each time"
mkdir "$work/destination" "$work/user" "$work/node"
user gen '3000x1KiB..64KiB,40x1MiB..8MiB,1x256MiB' "$work/run42" --seed 7
total=$(bytes_below "$work/run42")
echo "$(find "$work/run42" -type f | wc -l) files, $total bytes"

say "A node on loopback, and two identities that know each other"
start_shown 127.0.0.1:0
node access allow "$(user id)" --export data --write
user trust "$address" "$(node id)"

say "The transfer, with TLS; at half of the bytes the node is killed, and started again"
mkfifo "$work/events"
GODWIT_HOME=$work/user/home "$godwit" cp --json --limit 150MB/s "$work/run42" "godwit://$address/data/" >"$work/events" &
pids[client]=$!
exec 4<"$work/events"
killed=
summary=
while read -r event <&4; do
    if [ -z "$killed" ] && [[ $event =~ \"event\":\"progress\",\"bytes\":([0-9]+) ]] &&
        [ "${BASH_REMATCH[1]}" -ge $((total / 2)) ]; then
        echo "at ${BASH_REMATCH[1]} bytes: killing the node"
        kill_node node
        killed=yes
        start_shown "$address"
    fi
    case $event in *'"event":"summary"'*) summary=$event ;; esac
done
exec 4<&-
code=0
wait "${pids[client]}" || code=$?
unset "pids[client]"
echo "$summary"
if [ "$code" -ne 0 ]; then
    fail "the transfer ended with exit code $code"
fi
if [ -z "$killed" ]; then
    fail "the transfer was over before the node could be killed"
fi

say "The same, by rsync's own checksums: no difference may be printed"
difference=$(rsync -aH --checksum --delete --dry-run --itemize-changes "$work/run42/" "$work/destination/run42/")
if [ -n "$difference" ] || find "$work/destination" -name '.godwit-*' | grep -q .; then
    echo "$difference" | head >&2
    fail "source and destination differ, see above"
fi
echo "identical"

say "Once more: there is nothing left to send"
user cp "$work/run42" "godwit://$address/data/"
