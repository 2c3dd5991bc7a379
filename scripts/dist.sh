#!/bin/sh
# Everything that is released, into build/dist: Debian packages, the Python wheel, a source archive, a container image, a bill of
# materials (SPDX) and SHA256SUMS. What is built is the last commit; the same commit gives the same files on the same system.
#
#   scripts/dist.sh [--without-image] [--without-wheel]
set -eu
. "$(dirname "$0")/env.sh"
dist=$ROOT/build/dist
image=yes wheel=yes
for option in "$@"; do
    case $option in
        --without-image) image='' ;;
        --without-wheel) wheel='' ;;
        *)
            sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
            exit 2
            ;;
    esac
done

step() {
    say "== dist: $*"
}

stop() {
    say "dist: $*" >&2
    exit 1
}

have git && git rev-parse --git-dir >/dev/null 2>&1 || stop 'this is no checkout of git'
[ -z "$(git status --porcelain --untracked-files=no)" ] ||
    stop 'there are changes that are not committed: commit or stash them, a release is made of a commit'
have dpkg-buildpackage && have dh && have dh_python3 ||
    stop 'tools for Debian packages are missing: apt-get install dpkg-dev debhelper dh-python'
have python3 || stop 'python3 is missing: apt-get install python3'
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
AQUIFER_COMMIT=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export AQUIFER_COMMIT SOURCE_DATE_EPOCH
begin=$(date +%s)

# What is released names no folder of this machine. Other flags are another build for cargo, so it has a place of its own.
home=${CARGO_HOME:-$HOME/.cargo}
sysroot=$("${RUSTC:-rustc}" --print sysroot)
RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$ROOT=/aquifer --remap-path-prefix=$home=/cargo --remap-path-prefix=$sysroot=/rust"
CFLAGS="${CFLAGS:-} -ffile-prefix-map=$ROOT=/aquifer -ffile-prefix-map=$home=/cargo"
CARGO_TARGET_DIR=$TARGET/dist
export RUSTFLAGS CFLAGS CARGO_TARGET_DIR

# Runs what compiles, at one time for all commits: a crate whose build looks at it (ring) would be built anew for each. rustc writes no
# time; the archive of the wheel has this one, 1980.
compiles() {
    SOURCE_DATE_EPOCH=315619200 "$@"
}

rm -rf "$dist"
mkdir -p "$dist"
step 'source archive'
git archive --prefix="aquifer-$version/" "$AQUIFER_COMMIT" | gzip -9n >"$dist/aquifer-$version.tar.gz"
step 'bill of materials'
scripts/bom.py spdx >"$dist/aquifer-$version.spdx.json"
step 'library and command: some ten minutes the first time'
compiles scripts/build-lib.sh --locked
if [ -n "$wheel" ]; then
    step 'Python wheel'
    rm -f build/wheels/*.whl
    compiles scripts/build-wheel.sh
    cp build/wheels/*.whl "$dist/"
    AQUIFER_WHEEL=$(ls "$dist"/*.whl)
    export AQUIFER_WHEEL
else
    export DEB_BUILD_PROFILES="${DEB_BUILD_PROFILES:-} nopython"
fi
step 'Debian packages'
AQUIFER_BUILT=$TARGET/dist/$PROFILE scripts/build-deb.sh "$dist"
if [ -n "$image" ]; then
    step 'container image'
    scripts/build-image.sh "$dist" || [ $? = 77 ]
fi
# They tell of the machine that packed.
rm -f "$dist"/*.changes "$dist"/*.buildinfo
step 'SHA256SUMS'
(cd "$dist" && sha256sum -- *[!S] >SHA256SUMS)
ls -l "$dist"
say "dist: $(($(date +%s) - begin)) s; everything is in build/dist"
