# shellcheck shell=bash
# The frame of the demonstrations: the program, a temporary directory, and nodes. All nodes and files are gone when the script ends.
# scripts/demo*.sh read this file in the root of the tree. A node starts only when a script asks for one.

demo=$(basename "$0" .sh)
godwit=${GODWIT:-$PWD/target/release/godwit}

say() { printf '\n== %s\n' "$*"; }
fail() {
    echo "$demo: $*" >&2
    exit 1
}

if [ ! -x "$godwit" ]; then
    fail "$godwit is missing: run make build"
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/godwit-$demo.XXXXXX")
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

# Runs a command as a node.
at() {
    local node=$1
    shift
    GODWIT_HOME=$work/$node/home "$godwit" "$@"
}

# Starts a node that exports a directory; waits for its address and until its API answers.
start_node() {
    local node=$1 data=$2 listen=$3 log=$work/$1/node.log
    shift 3
    mkdir -p "$work/$node" "$data"
    : >"$log"
    GODWIT_HOME=$work/$node/home "$godwit" serve --listen "$listen" --export "data=$data" "$@" >"$log" 2>&1 &
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
    cat "$log" >&2
    fail "the node $node did not start, see above"
}

# Kills a node without warning.
kill_node() {
    local pid=${pids[$1]}
    kill -9 "$pid"
    wait "$pid" 2>/dev/null || true
    unset "pids[$1]"
}

# The number of bytes of all files below a directory.
bytes_below() { find "$1" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }'; }
