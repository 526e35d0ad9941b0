#!/usr/bin/env bash
# Runs the tests, and closes with `N passed, N failed, N skipped`. .config/nextest.toml says how.
# No comment of the code has an example that could run, so there are no tests of documents.
# usage: test.sh [ARGUMENTS OF cargo nextest run], for example: test.sh -E 'test(links::)'
set -euo pipefail
cd "$(dirname "$0")/.."

nextest=$(scripts/tool.sh cargo-nextest)
target=${CARGO_TARGET_DIR:-target}
report=$target/nextest/default/junit.xml
rm -f "$report"

code=0
"$nextest" nextest run --workspace --locked --test-threads $(((5 * $(nproc) + 1) / 2)) "$@" || code=$?
if [ ! -e "$report" ]; then
    echo "test.sh: no report at $report: nothing is counted, and cargo nextest ended with $code" >&2
    exit 1
fi
scripts/test-report.py "$report"
exit $code
