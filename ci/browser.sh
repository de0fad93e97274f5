#!/usr/bin/env bash
# Install headless Chromium for the tests of pages from the packages of Debian, unless there is a browser already.
set -euo pipefail
cd "$(dirname "$0")/.."
if .venv/bin/python -m tests.reports.chromium; then
    exit
fi
if ! command -v apt-get >/dev/null; then
    echo "no apt-get here: install Chromium by other means, and set HARNESS_CHROMIUM if it is not on PATH" >&2
    exit 2
fi
root=()
[ "$(id -u)" = 0 ] || root=(sudo)
"${root[@]}" apt-get update -qq
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends chromium-headless-shell >/dev/null
.venv/bin/python -m tests.reports.chromium
