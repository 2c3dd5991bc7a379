#!/bin/sh
# The tests of the Python package (crates/python/tests, and the examples in its documents) under one CPython.
#
#   tests/python/run.sh --list           the versions that this machine has, and "wheel"
#   tests/python/run.sh VERSION          all tests, with what cargo built: 3.10 with NumPy 1.26, others with the newest
#   tests/python/run.sh wheel            `pip install` of this folder, in an environment of its own
#
# AQUIFER_BUILT: the folder of cargo with lib_core.so [target/release, built first]. AQUIFER_LONG=1: all tests under each version,
# and the wheel as it is released. NumPy, pytest, hypothesis and maturin come from the package index; without it the tests
# are skipped.
set -eu
cd "$(dirname "$0")/../.."
subject=python
needs_aquifer=''
. tests/lib.sh
VERSIONS='3.10 3.11 3.12 3.13 3.14'
out=$PWD/build/python
crate=$PWD/crates/python

# The interpreter of a version: on the path, or one of pyenv's.
interpreter() {
    for found in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/"python$1"; do
        if "$found" -c 'import venv, ensurepip' 2>/dev/null; then
            echo "$found"
            return
        fi
    done
}

# An environment of a version with packages, in $1.
environment() {
    if [ ! -e "$1/complete" ]; then
        rm -rf "$1"
        "$2" -m venv "$1"
        shift_to=$1
        shift 2
        timeout 600 "$shift_to/bin/pip" install --quiet --disable-pip-version-check "$@" >"$shift_to/pip.log" 2>&1 ||
            skip_all "pip cannot install $*: $(tail -n 1 "$shift_to/pip.log")"
        touch "$shift_to/complete"
    fi
}

# Lines of pytest as result lines.
results() {
    sed -n -e 's|^\([^ ]*::.*[^ ]\) *PASSED.*|ok python: \1|p' -e 's|^\([^ ]*::.*[^ ]\) *FAILED.*|FAIL python: \1|p' \
        -e 's|^\([^ ]*::.*[^ ]\) *ERROR.*|FAIL python: \1|p' -e 's|^\([^ ]*::.*[^ ]\) *SKIPPED|SKIP python: \1|p'
}

newest() {
    last=
    for one in $VERSIONS; do
        [ -z "$(interpreter "$one")" ] || last=$one
    done
    echo "$last"
}

# pytest in environment $1, with the package where $2 says, of the tests in $3.
pytest() {
    log=$1/pytest.log
    rm -rf "$1/tmp" && mkdir "$1/tmp"
    status=0
    # Flash and volumes have their whole size on disk: small ones, and none kept until the end.
    # shellcheck disable=SC2086 # a list of files
    (cd "$1/tmp" && COLUMNS=300 TMPDIR=$1/tmp AQUIFER_FLASH_SIZE=1G PYTHONPATH=$2 timeout 1000 "$1/bin/python" -m pytest \
        -v -p no:cacheprovider --rootdir="$crate" -o addopts= -o tmp_path_retention_policy=none --tb=short --durations=8 \
        --doctest-modules --doctest-glob='*.md' $3) >"$log" 2>&1 || status=$?
    results <"$log"
    rm -rf "$1/tmp"
    [ "$status" = 0 ] || { tail -n 60 "$log" && fail "pytest ended with $status"; }
}

case ${1:-} in
--list)
    for version in $VERSIONS; do
        [ -z "$(interpreter "$version")" ] || echo "$version"
    done
    echo wheel
    exit
    ;;
wheel)
    for version in 3.11 3.12 3.13 3.10; do
        python=$(interpreter "$version")
        [ -z "$python" ] || break
    done
    [ -n "$python" ] || skip_all "no CPython of $VERSIONS with venv"
    # As it is released, or of what tests are built of.
    profile=dev
    [ -z "${AQUIFER_LONG:-}" ] || profile=release
    rm -rf "$out/wheel"
    environment "$out/wheel" "$python" numpy pytest hypothesis
    if timeout 1000 "$out/wheel/bin/pip" install --disable-pip-version-check --config-settings "build-args=--profile=$profile" . \
        >"$out/wheel.log" 2>&1; then
        pass "pip install ."
    else
        grep -q 'No matching distribution\|Could not fetch' "$out/wheel.log" && skip_all "pip cannot fetch maturin"
        tail -n 40 "$out/wheel.log"
        fail "pip install ."
        exit 1
    fi
    "$out/wheel/bin/python" -P -c 'import aquifer; a = aquifer.Array((9, 64)); a[3] = 1; assert a.sum() == 64' 2>/dev/null ||
        "$out/wheel/bin/python" -c 'import aquifer; a = aquifer.Array((9, 64)); a[3] = 1; assert a.sum() == 64' ||
        fail "what was installed does not work"
    [ "$failed" != 0 ] || pass "the package that pip installed"
    ;;
*)
    version=${1:?a version, or wheel}
    python=$(interpreter "$version")
    [ -n "$python" ] || skip_all "no CPython $version with venv"
    built=${AQUIFER_BUILT:-}
    if [ -z "$built" ]; then
        built=target/release
        cargo build --quiet --release -p aquifer-python
    fi
    numpy=numpy
    [ "$version" != 3.10 ] || numpy='numpy<2'
    # Packages that adapters are tested with; the large ones only in long runs.
    more=diskcache
    [ -z "${AQUIFER_LONG:-}" ] || more="$more gguf llama-cpp-python torch torch-geometric hnswlib usearch"
    # shellcheck disable=SC2086 # a list
    environment "$out/$version" "$python" "$numpy" pytest hypothesis $more
    rm -rf "$out/$version/package"
    mkdir -p "$out/$version/package"
    cp -r crates/python/python/aquifer "$out/$version/package/"
    cp "$built/lib_core.so" "$out/$version/package/aquifer/_core.abi3.so"
    package=$out/$version/package
    tests="$crate/tests $package/aquifer $crate/README.md $PWD/docs/start/python.md $PWD/docs/howto/kv-cache.md $PWD/docs/howto/vectors.md"
    # Versions between the oldest and the newest differ from those in how they call, not in what memory does.
    if [ -z "${AQUIFER_LONG:-}" ] && [ "$version" != 3.10 ] && [ -n "$(interpreter 3.10)" ] && [ "$version" != "$(newest)" ]; then
        tests="$crate/tests/test_indexing.py $crate/tests/test_store.py"
    fi
    pytest "$out/$version" "$package" "$tests"
    ;;
esac
exit "$failed"
