#!/usr/bin/env bash
# Make one environment: ci/setup.sh FOLDER PINS [WHEEL], for example .venv constraints/ci.txt.
# It gets the checkout for development, or that wheel.  `make setup` calls it when the pins or pyproject.toml have changed.  PYTHON names the interpreter to use.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
pins=$2
wheel=${3:-}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3}; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "no Python 3.11, 3.12 or 3.13 among: ${PYTHON:-python3.11 python3.12 python3.13 python3};" \
        "install one, or name it: make setup PYTHON=/path/to/python3.12" >&2
    return 2
}

if [ ! -x "$venv/bin/python" ]; then
    python=$(find_python)
    "$python" -m venv "$venv"
fi
pip=("$venv/bin/python" -m pip -qq --disable-pip-version-check)

# First torch with its dependencies: a CUDA build brings its libraries, and a Triton that the next line replaces.
# Then everything that is pinned, extras included, without resolving anything.
grep -v '^triton==' "$pins" >"$venv/pins-of-torch.txt"
"${pip[@]}" install --constraint "$venv/pins-of-torch.txt" "$(grep '^torch==' "$pins")"
"${pip[@]}" install --no-deps --requirement "$pins"
if [ -n "$wheel" ]; then
    "${pip[@]}" install --no-deps --force-reinstall "$wheel"
else
    "${pip[@]}" install --no-deps --no-build-isolation --editable .
fi
