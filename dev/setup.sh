#!/usr/bin/env bash
# Installs the project into a virtual environment: pinned Python packages, Spark's jars, a Java where none fits, dbt packages.
# Usage: dev/setup.sh PYTHON VENV
set -euo pipefail
python=$1 venv=$2
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "error: $python is $("$python" --version 2>&1 || true); Python 3.11 or newer is needed. Name one: make PYTHON=python3.11 ..." >&2
  exit 1
fi
# One that was broken off, or whose Python is gone, is made anew; Debian and Ubuntu have venv in a package of its own.
if ! "$venv/bin/python" -m pip --version > /dev/null 2>&1; then
  rm -f "$venv/.locked"
  "$python" -m venv --clear "$venv"
fi
wanted=$(cksum < requirements.lock)
if [ "$(cat "$venv/.locked" 2>/dev/null)" != "$wanted" ]; then
  echo "installing Python packages (about 700 MB with Spark; a few minutes the first time)"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r requirements.lock
  echo "$wanted" > "$venv/.locked"
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
"$venv/bin/python" -m ingest.spark.jars
"$venv/bin/python" dev/dbt_packages.py
