#!/usr/bin/env bash
# Runs the tests, and closes with `N passed, N failed, N skipped`. .config/nextest.toml says how.
# usage: test.sh [ARGUMENTS OF cargo nextest run], for example: test.sh -E 'test(links::)'
set -euo pipefail
cd "$(dirname "$0")/.."

nextest=$(scripts/tool.sh cargo-nextest)
target=${CARGO_TARGET_DIR:-target}
report=$target/nextest/default/junit.xml
examples=$target/nextest/examples.log
rm -f "$report" "$examples"

code=0
"$nextest" nextest run --workspace --locked --test-threads $((2 * $(nproc))) "$@" || code=$?
if [ ! -e "$report" ]; then
    echo "test.sh: no report at $report: nothing is counted, and cargo nextest ended with $code" >&2
    exit 1
fi
logs=()
if [ $# -eq 0 ]; then
    # The examples in documents of the code, which nextest does not run.
    cargo test --doc --workspace --locked --quiet >"$examples" 2>&1 || { code=$?; cat "$examples"; }
    logs=("$examples")
fi
scripts/test-report.py "$report" "${logs[@]}"
exit $code
