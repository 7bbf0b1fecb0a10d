#!/usr/bin/env bash
# Makes the virtual environment VENV with PYTHON and installs the package, editable, with the pinned versions.
set -euo pipefail
python=$1 venv=$2

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "Rampup needs Python 3.11 or newer; name one with 'make PYTHON=python3.11'." >&2
    exit 1
fi
if [ ! -x "$venv/bin/pip" ] && ! "$python" -m venv "$venv" >/dev/null 2>&1; then
    # Debian ships venv apart from Python.
    package="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "Python's venv module is missing; install it first, on Debian with 'apt-get install $package'." >&2
        exit 1
    fi
    echo "Installing $package ..."
    apt-get update -qq && apt-get install -y -qq "$package" >/dev/null
    "$python" -m venv --clear "$venv"
fi
echo "Installing Rampup into $venv (once; about a minute) ..."
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
