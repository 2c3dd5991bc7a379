#!/bin/sh
# Builds the Debian packages of this tree into a directory; debian/ says what is in them.
#
#   scripts/build-deb.sh [DIRECTORY]      default: build/deb
#
# The library and the command are built first, in the build directory of cargo, and packed in a copy of the tree with the changes of
# tracked files that are not committed.
#
# AQUIFER_PROFILE, AQUIFER_BUILT: as for scripts/build-lib.sh. AQUIFER_WHEEL: the wheel to pack. AQUIFER_COMMIT: what to pack in place of
# the tree. DEB_BUILD_PROFILES=nopython leaves out the package for Python.
set -eu
. "$(dirname "$0")/env.sh"
out=$(mkdir -p "${1:-build/deb}" && cd "${1:-build/deb}" && pwd)

needs() {
    say "build-deb: $*" >&2
    exit 1
}
have dpkg-buildpackage && have dh || needs 'debhelper is missing: apt-get install dpkg-dev debhelper'
have git && git rev-parse --git-dir >/dev/null 2>&1 || needs 'this is no checkout of git; in a source archive, run dpkg-buildpackage -b'
python=yes
case " ${DEB_BUILD_PROFILES:-} " in *' nopython '*) python='' ;; esac

scripts/build-lib.sh --locked
if [ -n "$python" ] && [ -z "${AQUIFER_WHEEL:-}" ]; then
    rm -f build/wheels/*.whl
    scripts/build-wheel.sh
    AQUIFER_WHEEL=$(ls "$ROOT"/build/wheels/*.whl)
fi
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export AQUIFER_WHEEL SOURCE_DATE_EPOCH AQUIFER_BUILT="$BUILT"

work=$(mktemp -d "$out/.work.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
tree=${AQUIFER_COMMIT:-$(git stash create)}
git archive --prefix=aquifer/ "${tree:-HEAD}" | tar -x -C "$work"
say "build-deb: packing $(dpkg-parsechangelog -l debian/changelog -S Version) as Debian packages"
# -d: what compiles is not needed any more.
(cd "$work/aquifer" && dpkg-buildpackage -b -us -uc -d >"$work/log" 2>&1) || {
    cat "$work/log" >&2
    needs 'dpkg-buildpackage failed, see above'
}
rm -f "$out"/*aquifer*.deb "$out"/aquifer_*.changes "$out"/aquifer_*.buildinfo
mv "$work"/*.deb "$work"/*.changes "$work"/*.buildinfo "$out/"
ls -l "$out"/*.deb
