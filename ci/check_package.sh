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

# What a new user gets: the wheel, its dependencies, and the extra of the README's Install section.  Triton is the one
# that fits torch, for a CUDA build of torch has a Triton of its own.
grep -v '^triton==' constraints/ci.txt >"$work/pins.txt"
environment=$work/env
.venv/bin/python -m venv "$environment"
pip=(-m pip -qq --disable-pip-version-check)
"$environment/bin/python" "${pip[@]}" install --constraint "$work/pins.txt" "${wheel}[suites]" pytest
empty=$(mktemp -d -p "$work")
cd "$empty"
harness() {
    "$environment/bin/harness" "$@"
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

# The commands of the README, and the tutorial from its first file to its last command in five minutes: in empty folders.
(cd "$root" && .venv/bin/python -m ci.first_steps "$(mktemp -d -p "$work")" --bin "$environment/bin")
"$root/.venv/bin/python" "$root/ci/tutorial.py" --bin "$environment/bin" "$(mktemp -d -p "$work")"

# Without torch and Triton, as the machine that merges reports: what runs no case works, the rest names the remedy.
cd "$empty"
read -ra needs <<<"$(sed -n 's/^ *NEEDS: \(.*\) #.*/\1/p' "$root/harness/drafts/ci_templates/github-nightly.yml")"
environment=$work/bare
"$root/.venv/bin/python" -m venv "$environment"
"$environment/bin/python" "${pip[@]}" install --constraint "$work/pins.txt" "${needs[@]}"
"$environment/bin/python" "${pip[@]}" install --no-deps "$wheel"
expect 0 --help
expect 0 devices
expect 2 doctor
expect 0 report --output again.html
expect 2 fuzz planted:overlapping_store --device h200 --cases 5 --seed 0
said="harness: the engine needs torch, which is not installed: pip install kernel-harness"
diff <(echo "$said") "$work/err.txt"
