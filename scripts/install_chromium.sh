#!/usr/bin/env bash
# Installs Chromium and its driver, with which tests look at the report page, where they are missing (Debian, Ubuntu).
set -euo pipefail

has_browser() { command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; }

if has_browser && command -v chromedriver >/dev/null; then
    echo "Chromium and its driver are there already."
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "There is no apt-get here: install Chromium and chromedriver by hand." >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "Installing needs root, and there is no sudo: run this script as root." >&2
        exit 1
    fi
    as_root=(sudo)
fi
echo "Installing chromium and chromium-driver with apt-get ..."
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver >/dev/null
echo "Done: $(chromium --version)"
