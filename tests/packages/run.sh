#!/bin/sh
# The Debian packages in clean roots: they are installed, used, upgraded, removed and purged. One result line each.
#
#   tests/packages/run.sh [SUITE]...      default: image bookworm trixie; image is that of scripts/build-image.sh
#
# AQUIFER_DEBS: a directory with the packages [build/dist, else build/deb, which is made if it is not there]. The first run of a suite
# downloads its root, which stays in build/packages. Everything else is gone at the end; mounts are those of a namespace of their own.
set -u
cd "$(dirname "$0")/../.." || exit 1
subject=packages needs_aquifer=''
. tests/lib.sh

for tool in mmdebstrap unshare dpkg-deb; do
    command -v $tool >/dev/null || skip_all "$tool is missing (package mmdebstrap, util-linux, dpkg)"
done
[ "$(id -u)" = 0 ] || skip_all 'needs root, to install packages into a root of their own'
unshare --mount --pid --fork true 2>/dev/null || skip_all 'no namespaces here'

debs=${AQUIFER_DEBS:-}
[ -n "$debs" ] || for debs in build/dist build/deb; do
    [ -z "$(find "$debs" -name 'aquifer_*.deb' 2>/dev/null)" ] || break
done
if [ -z "$(find "$debs" -name 'aquifer_*.deb' 2>/dev/null)" ]; then
    command -v dh >/dev/null || skip_all "no packages in $debs, and debhelper is missing to make them (scripts/build-deb.sh)"
    scripts/build-deb.sh "$debs" >&2 || {
        fail 'scripts/build-deb.sh'
        exit 1
    }
fi
debs=$(cd "$debs" && pwd)
mkdir -p build/packages
work=$(mktemp -d "${TMPDIR:-/var/tmp}/aquifer-packages.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# inside COMMAND...: runs it in the root, in namespaces that end with it.
inside() {
    # shellcheck disable=SC2016 # expands there
    unshare --mount --pid --fork --kill-child sh -c '
        mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount --rbind /sys "$1/sys" && mount -t tmpfs run "$1/run" || exit 125
        root=$1
        shift
        exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive TMPDIR=/var/tmp "$@"' \
        sh "$root" "$@"
}

# check NAME COMMAND...: passes if the command does; its output is shown if it fails.
check() {
    name=$1
    shift
    if "$@" >"$work/output" 2>&1; then
        pass "$suite: $name"
    else
        fail "$suite: $name (exit $?): $*"
        sed 's/^/    /' "$work/output"
        return 1
    fi
}

# What is in the root, without what package tools keep of themselves: logs, caches, lists, copies of the tables of users; Ubuntu's folder
# appears beside /lib when a package has files in it.
listing() {
    (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./tmp -o -path ./var/tmp \
        -o -path ./var/log -o -path ./var/cache -o -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./test \) -prune -o -print) |
        grep -v -e '^\./etc/\(passwd\|group\|shadow\|gshadow\)-$' -e '^\./etc/\.pwd\.lock$' -e /__pycache__ -e '^\./lib\.usr-is-merged$' \
            -e '^\./var/lib/systemd/deb-systemd-helper' -e '^\./etc/\(ld\.so\.cache\|subuid-\|subgid-\)$' | sort
}

# The root of a suite, downloaded once.
base() {
    [ -s "build/packages/$suite.tar" ] && return
    include=apt,gcc,libc6-dev,pkg-config,systemd-standalone-sysusers,systemd-standalone-tmpfiles,python3-numpy
    echo "downloading a root of $suite" >&2
    mmdebstrap --quiet --variant=minbase --include=$include "$suite" "build/packages/.$suite.tar" >&2 &&
        mv "build/packages/.$suite.tar" "build/packages/$suite.tar"
}

# The same packages as a version that follows.
next_version() {
    mkdir -p "$root/test/next"
    for deb in "$root"/test/*.deb; do
        rm -rf "$work/deb"
        dpkg-deb -R "$deb" "$work/deb" || return 1
        sed -i -e 's/^\(Version: .*\)$/\1+1/' -e "s/(= $version)/(= $version+1)/" "$work/deb/DEBIAN/control"
        dpkg-deb --root-owner-group -Zgzip -z1 -b "$work/deb" "$root/test/next/$(basename "$deb")" >/dev/null || return 1
    done
}

# shellcheck disable=SC2016 # expands in the root
of_suite() {
    root=$work/$suite
    mkdir "$root"
    tar -x -C "$root" -f "build/packages/$suite.tar" || return 1
    mkdir "$root/test"
    cp "$debs"/*aquifer*.deb "$root/test/" && cp tests/packages/*.c tests/packages/*.py "$root/test/"
    rm -f "$root"/test/*-dbgsym_*.deb
    numpy=$(inside dpkg-query -W -f '${Version}' python3-numpy)
    has_python=yes
    if ! ls "$root"/test/python3-aquifer_*.deb >/dev/null 2>&1; then
        skip "$suite: python3-aquifer: it was not built"
        has_python=''
    elif ! dpkg --compare-versions "$numpy" ge 1:1.26; then
        check "python3-aquifer is refused beside NumPy $numpy" inside sh -c '! apt-get install -y /test/python3-aquifer_*.deb'
        rm "$root"/test/python3-aquifer_*.deb
        has_python=''
    fi
    version=$(dpkg-deb -f "$root"/test/aquifer_*.deb Version)
    listing >"$work/before"

    # Nothing of the rest says anything without it.
    check 'install' inside sh -c 'apt-get install -y --no-install-recommends /test/*.deb' || {
        rm -rf "$root"
        return 0
    }
    check 'the command has this version' inside sh -c "[ \"\$(aquifer --version)\" = 'aquifer ${version%%[-+]*}' ]"
    check 'the command finds the libraries that it loads' inside sh -c 'aquifer version | tee /dev/stderr |
        grep -c "/usr/lib/aquifer/libaquifer_\(preload\|sqlite\)\.so" | grep -qx 2 && [ -f /usr/lib/aquifer/libaquifer_nbdkit.so ]'
    check 'aquifer doctor' inside sh -c 'aquifer doctor; [ $? -le 1 ]'
    sed 's/^/    /' "$work/output"
    check 'a C program by pkg-config' inside sh -c 'cd /test && cc program.c $(pkg-config --cflags --libs aquifer) -o shared &&
        AQUIFER_RAM=16M AQUIFER_FLASH=/var/tmp AQUIFER_FLASH_SIZE=256M ./shared'
    check 'a C program with the static library' inside sh -c 'cd /test && cc program.c -l:libaquifer.a \
        $(sed -n "s/^Libs.private: //p" /usr/lib/*/pkgconfig/aquifer.pc) -o static &&
        AQUIFER_RAM=16M AQUIFER_FLASH=/var/tmp AQUIFER_FLASH_SIZE=256M ./static'
    check 'aquifer run with a quarter of the memory' inside sh -c 'cd /test && cc -O1 larger.c -o larger &&
        aquifer run --ram 64M --flash-size 1G --report -- ./larger'
    sed 's/^/    /' "$work/output"
    [ -z "$has_python" ] || check "Python, NumPy $numpy" inside python3 /test/arrays.py
    check 'the user and the folder of the donor' inside sh -c 'id aquifer && [ "$(stat -c "%a %U %G" /etc/aquifer)" = "750 root aquifer" ]'
    check 'the donor reads its cluster as that user' inside sh -c 'cd /var/tmp && aquifer cluster init authority &&
        aquifer cluster join authority here && cp here/* /etc/aquifer/ && systemd-tmpfiles --create aquifer.conf &&
        [ "$(stat -c "%a %G" /etc/aquifer/host-key.pem)" = "640 aquifer" ] &&
        timeout --preserve-status -s INT 3 setpriv --reuid aquifer --regid aquifer --clear-groups --bounding-set=-all \
            aquifer donate --listen 127.0.0.1:0 --cluster /etc/aquifer --lend 64M --provider memory; status=$?
        rm -rf /etc/aquifer/*.pem /etc/aquifer/gossip.key authority here; exit $status'

    check 'a next version is made' next_version
    check 'upgrade' inside sh -c 'apt-get install -y --no-install-recommends /test/next/*.deb &&
        [ "$(dpkg-query -W -f "\${Version}" aquifer)" = "'"$version+1"'" ]'
    check 'aquifer run after the upgrade' inside aquifer run --ram 64M --flash-size 1G -- /test/larger
    check 'remove' inside sh -c 'apt-get remove -y "*aquifer*" && ! command -v aquifer && [ -f /etc/default/aquifer-donate ]'
    check 'purge' inside sh -c 'apt-get purge -y "*aquifer*" && ! dpkg -l "*aquifer*" | grep "^[a-z][a-z] " | grep -v "^un"'
    listing >"$work/after"
    check 'nothing is left but the user' diff "$work/before" "$work/after"
    rm -rf "$root"
}

# The image is a tar of tars, of which one is the root.
of_image() {
    root=$work/image
    mkdir -p "$root" "$work/unpacked"
    tar -x -C "$work/unpacked" -f "$debs"/aquifer-*-image.tar || return 1
    layer=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[0]["Layers"][0])' "$work/unpacked/manifest.json")
    tar -xz -C "$root" -f "$work/unpacked/$layer" || return 1
    check 'it names no folder of the machine that made it' sh -c "! find '$root' -path '*$PWD*' | grep ."
    seq 1 3000000 | sort -R >"$root/flash/numbers"
    check 'aquifer run sorts in a quarter of the memory' inside sh -c 'cd /flash && TMPDIR=/flash aquifer run --ram 48M --flash-size 1G -- \
        sort -n -S 256M --parallel=1 numbers >sorted && seq 1 3000000 | cmp - sorted'
    check 'its first words' inside aquifer run --help
    rm -rf "$root" "$work/unpacked"
}

[ $# -gt 0 ] || set -- image bookworm trixie
for suite in "$@"; do
    if [ "$suite" = image ]; then
        if ls "$debs"/aquifer-*-image.tar >/dev/null 2>&1; then
            of_image || fail 'image: it cannot be unpacked'
        else
            skip "image: there is none in $debs (scripts/build-image.sh)"
        fi
    elif base; then
        of_suite || fail "$suite: its root"
    else
        skip "$suite: no root of it can be made here (mmdebstrap; is there a network?)"
    fi
done
# shellcheck disable=SC2154 # of tests/lib.sh
exit "$failed"
