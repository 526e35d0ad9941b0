#!/usr/bin/env bash
# Builds the wheel of the Python client, installs that wheel, and checks it: format, lints, types, and tests with a real node.
# Keeps everything in target/python. Nothing is skipped unless the closing lines name it.
# usage: python.sh [ARGUMENTS OF pytest], for example: python.sh -k test_events
set -euo pipefail
cd "$(dirname "$0")/.."

target=$PWD/${CARGO_TARGET_DIR:-target}
case ${CARGO_TARGET_DIR:-} in
    /*) target=$CARGO_TARGET_DIR ;;
esac
export GODWIT=${GODWIT:-$target/debug/godwit}
if [ ! -x "$GODWIT" ]; then
    echo "python.sh: $GODWIT is missing: run cargo build --locked" >&2
    exit 1
fi

made=$target/python
environment=$made/environment
# What the checks call, beside what the package itself needs.
tools=(build hatchling mypy ruff pytest hypothesis rich ipywidgets nbclient nbformat ipykernel scipy-stubs)
wanted=$(printf '%s\n' "${tools[@]}" | cat - python/pyproject.toml | sha256sum)
if [ "$(cat "$environment/wanted" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$environment"
    python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet --no-compile --disable-pip-version-check "${tools[@]}"
fi
bin=$environment/bin

rm -rf "$made/wheel"
"$bin/python" -m build --quiet --wheel --no-isolation --outdir "$made/wheel" python
wheel=$(echo "$made"/wheel/*.whl)
"$bin/pip" install --quiet --no-compile --disable-pip-version-check "$wheel[progress,mcp,evaluate]"
# The same version may have other contents than the wheel that was there.
"$bin/pip" install --quiet --no-compile --disable-pip-version-check --no-deps --force-reinstall "$wheel"
echo "$wanted" >"$environment/wanted"

cd python
export RUFF_CACHE_DIR=$made/ruff MYPY_CACHE_DIR=$made/mypy PYTHONPYCACHEPREFIX=$made/bytecode
"$bin/ruff" format --check .
"$bin/ruff" check .
"$bin/mypy" --python-executable "$bin/python" src
"$bin/pytest" -o cache_dir="$made/pytest" "$@"
