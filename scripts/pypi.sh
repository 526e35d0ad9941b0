#!/usr/bin/env bash
# Whether PyPI answers: it sends one small package. Fails where it does not.
# usage: pypi.sh
set -euo pipefail

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m pip download --quiet --disable-pip-version-check --no-deps --retries 1 --timeout 15 --dest "$place" hatchling >&2
