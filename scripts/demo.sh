#!/usr/bin/env bash
# A transfer on loopback, with TLS, whose node is killed half-way: it resumes and arrives whole.
# Leaves nothing behind: keys, data and journals are in a temporary directory.
set -euo pipefail
cd "$(dirname "$0")/.."

godwit=${GODWIT:-$PWD/target/release/godwit}
if [ ! -x "$godwit" ]; then
    echo "demo: $godwit is missing: run make build" >&2
    exit 1
fi
if ! command -v rsync >/dev/null; then
    echo "demo: rsync is missing, which judges the result: run scripts/setup.sh" >&2
    exit 1
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/godwit-demo.XXXXXX")
node_pid=
client_pid=
clean_up() {
    for pid in $client_pid $node_pid; do
        kill -9 "$pid" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

say() { printf '\n== %s\n' "$*"; }
user() { GODWIT_HOME=$work/user "$godwit" "$@"; }
node() { GODWIT_HOME=$work/node "$godwit" "$@"; }

# Starts the node and waits for the line that names its address: $address.
start_node() {
    rm -f "$work/node.log"
    mkfifo "$work/node.log"
    # Not by the function above: its process would be a shell's, and that is not what shall be killed.
    GODWIT_HOME=$work/node "$godwit" serve --listen "$1" --export "data=$work/destination" >"$work/node.log" 2>&1 &
    node_pid=$!
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
        echo "demo: the node ended before it listened" >&2
        exit 1
    fi
    # Whatever else it says is read, so that it never waits for us.
    cat <&3 >/dev/null &
    exec 3<&-
}

say "A data set of mixed sizes, the same each time"
mkdir "$work/destination"
user gen '3000x1KiB..64KiB,40x1MiB..8MiB,1x256MiB' "$work/run42" --seed 7
total=$(find "$work/run42" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
echo "$(find "$work/run42" -type f | wc -l) files, $total bytes"

say "A node on loopback, and two identities that know each other"
start_node 127.0.0.1:0
node access allow "$(user id)" --export data --write
user trust "$address" "$(node id)"

say "The transfer, with TLS; at half of the bytes the node is killed, and started again"
mkfifo "$work/events"
GODWIT_HOME=$work/user "$godwit" cp --json --limit 150MB/s "$work/run42" "godwit://$address/data/" >"$work/events" &
client_pid=$!
exec 4<"$work/events"
killed=
summary=
while read -r event <&4; do
    if [ -z "$killed" ] && [[ $event =~ \"event\":\"progress\",\"bytes\":([0-9]+) ]] &&
        [ "${BASH_REMATCH[1]}" -ge $((total / 2)) ]; then
        echo "at ${BASH_REMATCH[1]} bytes: killing the node"
        kill -9 "$node_pid"
        wait "$node_pid" 2>/dev/null || true
        killed=yes
        start_node "$address"
    fi
    case $event in *'"event":"summary"'*) summary=$event ;; esac
done
exec 4<&-
code=0
wait "$client_pid" || code=$?
client_pid=
echo "$summary"
if [ "$code" -ne 0 ]; then
    echo "demo: the transfer ended with exit code $code" >&2
    exit 1
fi
if [ -z "$killed" ]; then
    echo "demo: the transfer was over before the node could be killed" >&2
    exit 1
fi

say "The same, by rsync's own checksums: no difference may be printed"
difference=$(rsync -aH --checksum --delete --dry-run --itemize-changes "$work/run42/" "$work/destination/run42/")
if [ -n "$difference" ] || find "$work/destination" -name '.godwit-*' | grep -q .; then
    echo "demo: source and destination differ:" >&2
    echo "$difference" | head >&2
    exit 1
fi
echo "identical"

say "Once more: there is nothing left to send"
user cp "$work/run42" "godwit://$address/data/"
