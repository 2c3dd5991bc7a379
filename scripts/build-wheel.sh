#!/bin/sh
# Builds the Python package as a wheel for every CPython from 3.10 on this kind of machine: build/wheels.
#
#   scripts/build-wheel.sh [OPTION OF maturin build]...
#
# maturin comes from the package index, into build/wheels/venv.
set -eu
. "$(dirname "$0")/env.sh"
cd "$ROOT"
out=$ROOT/build/wheels
python=${PYTHON:-python3}
"$python" -c 'import venv, ensurepip' 2>/dev/null || {
    echo "wheel: needs Python with venv: apt-get install python3-venv, or set PYTHON" >&2
    exit 1
}
[ -x "$out/venv/bin/maturin" ] || {
    "$python" -m venv "$out/venv"
    "$out/venv/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.9,<2'
}
"$out/venv/bin/maturin" build --release --locked --out "$out" "$@"
ls -l "$out"/*.whl
