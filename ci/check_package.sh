#!/usr/bin/env bash
# Build sdist and wheel, install the wheel into an empty environment, and use it there from an empty folder.
# ci/check_package.sh [FOLDER]; FOLDER gets `dist` and the environment (default: a temporary folder, removed at the end).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
if [ $# -gt 0 ]; then
    work=$(mkdir -p "$1" && cd "$1" && pwd)
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
dist=$work/dist
rm -rf "$dist"
.venv/bin/python -m hatchling build --directory "$dist" >/dev/null
sdist=$(echo "$dist"/*.tar.gz)
wheel=$(echo "$dist"/*.whl)

# The wheel of the sdist must be the wheel of the checkout: a file that the sdist lacks would be missing for packagers.
mkdir -p "$work/source"
tar -xzf "$sdist" -C "$work/source" --strip-components 1
(cd "$work/source" && "$root/.venv/bin/python" -m hatchling build -t wheel --directory "$work/again" >/dev/null)
names() {
    "$root/.venv/bin/python" -c "import sys, zipfile; print(*sorted(zipfile.ZipFile(sys.argv[1]).namelist()), sep='\n')" "$1"
}
diff <(names "$wheel") <(names "$work"/again/*.whl)
for part in harness_suites/fla/norm.py harness/drafts/ci_templates/github-gate.yml harness/catalogue.toml; do
    grep -qx "$part" <<<"$(names "$wheel")" || { echo "the wheel lacks $part" >&2; exit 1; }
done

ci/setup.sh "$work/env" constraints/ci.txt "$wheel"
empty=$(mktemp -d -p "$work")
cd "$empty"
harness() {
    "$work/env/bin/harness" "$@"
}
expect() { # STATUS COMMAND...: run it, show its last line, and compare its exit status
    local wanted=$1 status=0
    shift
    harness "$@" >"$work/out.txt" 2>"$work/err.txt" || status=$?
    printf '%s\n    %s\n' "harness $*" "$(grep -v '^$' "$work/out.txt" | tail -n 1)"
    if [ "$status" != "$wanted" ]; then
        echo "exit status $status instead of $wanted" >&2
        tail -n 20 "$work/out.txt" "$work/err.txt" >&2
        exit 1
    fi
}
expect 0 doctor
expect 0 devices
expect 1 fuzz fla:norm --with fla-core==0.5.2 --op layer_norm --device rtx-pro-6000 --cases 5 --seed 0
expect 0 fuzz planted:overlapping_store --op overlapping_store_repaired --device h200 --cases 5 --seed 0
expect 0 report --output report.html
expect 0 findings --explain write-overlap
expect 2 fuzz fla:norms

mkdir mine && cd mine && git init -q # a repository of its own, wherever the folder is
expect 2 init
printf 'import triton\n\n\n@triton.jit\ndef copy(x, y):\n    triton.language.store(y, triton.language.load(x))\n' >copying.py
expect 0 init
cd ..

# The tutorial, in an empty folder and this environment: from its first file to its last command in five minutes.
"$root/.venv/bin/python" "$root/ci/tutorial.py" --bin "$work/env/bin" "$(mktemp -d -p "$work")"
