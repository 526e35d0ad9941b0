#!/usr/bin/env bash
# Builds the source package of the Python client, and from that the wheel. Installs the wheel and checks it: format, lints, types, and
# tests with a real node. Keeps everything in target/python. Nothing is skipped unless the closing lines name it.
# usage: python.sh [ARGUMENTS OF pytest], for example: python.sh -k test_events
# With GODWIT_EXAMPLE_TOOLS=1, each example also runs with its tool, in an environment for that tool alone: their needs differ. A list of
# tools chooses some: GODWIT_EXAMPLE_TOOLS="snakemake prefect".
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
# The checks call these packages, which the package itself does not need.
tools=(build hatchling mypy ruff pytest hypothesis rich ipywidgets nbclient nbformat ipykernel scipy-stubs
    "ascmhl; python_version >= '3.11'")
wanted=$(printf '%s\n' "${tools[@]}" | cat - python/pyproject.toml | sha256sum)
if [ "$(cat "$environment/wanted" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$environment"
    python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet --no-compile --disable-pip-version-check "${tools[@]}"
fi
bin=$environment/bin

rm -rf "$made/wheel"
"$bin/python" -m build --quiet --no-isolation --outdir "$made/wheel" python
wheel=$(echo "$made"/wheel/*.whl)
"$bin/pip" install --quiet --no-compile --disable-pip-version-check "${wheel}[progress,mcp,evaluate]"
# The same version may have other contents than the wheel that was there.
"$bin/pip" install --quiet --no-compile --disable-pip-version-check --no-deps --force-reinstall "$wheel"
echo "$wanted" >"$environment/wanted"

# Where Python 3.9 is installed, tests of the client and of the evaluation run with it, too, and with the oldest packages that
# pyproject.toml allows.
oldest=
for found in "$(command -v python3.9 || true)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.9.*/bin/python3.9; do
    if [ -x "$found" ] && "$found" -c '' 2>/dev/null; then
        oldest=$found
    fi
done
if [ -n "$oldest" ]; then
    old=$made/oldest
    if [ "$(cat "$old/wanted" 2>/dev/null)" != "$wanted" ]; then
        rm -rf "$old"
        "$oldest" -m venv "$old"
        # `>=` of the extra `evaluate` becomes `==`.
        mapfile -t least < <(sed -n 's/^evaluate = \[\(.*\)\]$/\1/p' python/pyproject.toml | tr -d '"' | sed 's/, */\n/g' | sed 's/;.*//; s/>=/==/; s/ *$//')
        "$old/bin/pip" install --quiet --no-compile --disable-pip-version-check "${least[@]}" pytest hypothesis "$wheel"
        echo "$wanted" >"$old/wanted"
    fi
    "$old/bin/pip" install --quiet --no-compile --disable-pip-version-check --no-deps --force-reinstall "$wheel"
else
    echo "python.sh: there is no Python 3.9, so nothing runs with it" >&2
fi

cd python
export RUFF_CACHE_DIR=$made/ruff MYPY_CACHE_DIR=$made/mypy PYTHONPYCACHEPREFIX=$made/bytecode
"$bin/ruff" format --check .
"$bin/ruff" check .
"$bin/mypy" --python-executable "$bin/python" src
"$bin/pytest" -o cache_dir="$made/pytest" "$@"

if [ $# -eq 0 ] && [ -n "$oldest" ]; then
    "$old/bin/pytest" -o cache_dir="$made/pytest-oldest" -q tests/test_jobs.py tests/test_wire.py tests/test_events.py \
        tests/test_advice.py tests/test_campaign.py tests/test_report.py tests/test_stats.py
fi

examples=${GODWIT_EXAMPLE_TOOLS:-}
if [ "$examples" = 1 ]; then
    examples="snakemake prefect apache-airflow"
fi
missed=()
for tool in snakemake prefect apache-airflow; do
    if [[ " $examples " != *" $tool "* ]]; then
        missed+=("$tool, which GODWIT_EXAMPLE_TOOLS does not name")
        continue
    fi
    alone=$made/examples/$tool
    if [ ! -x "$alone/bin/pytest" ]; then
        python3 -m venv "$alone"
        if ! "$alone/bin/pip" install --quiet --no-compile --disable-pip-version-check "$tool" pytest "$wheel"; then
            missed+=("$tool, which does not install here")
            rm -rf "$alone"
            continue
        fi
    fi
    "$alone/bin/pip" install --quiet --no-compile --disable-pip-version-check --no-deps --force-reinstall "$wheel"
    "$alone/bin/pytest" -o cache_dir="$made/pytest-$tool" -q tests/test_examples.py -k "${tool#apache-}"
done
for tool in "${missed[@]}"; do
    echo "python.sh: an example is NOT run: that of $tool" >&2
done
