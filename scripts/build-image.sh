#!/bin/sh
# Builds a container image of the Debian packages in DIRECTORY: DIRECTORY/aquifer-VERSION-image.tar, for `docker load` and `podman load`.
#
#   scripts/build-image.sh [DIRECTORY]      default: build/dist
#
# The root is made by mmdebstrap, which needs neither a daemon nor another image, and gives the same bytes while the release of Debian
# does not change. etc/container/Dockerfile makes such an image with docker. Status 77: it cannot be made here.
set -eu
. "$(dirname "$0")/env.sh"
from=$(cd "${1:-build/dist}" && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
out=$from/aquifer-$version-image.tar
suite=bookworm

skip() {
    say "SKIP image: $*"
    exit 77
}
have mmdebstrap || skip 'mmdebstrap is missing: apt-get install mmdebstrap, or docker build -f etc/container/Dockerfile build/dist'
have python3 || skip 'python3 is missing'
deb=$(ls "$from"/aquifer_*.deb 2>/dev/null) || skip "there is no package aquifer in $from: scripts/build-deb.sh $from"

work=$(mktemp -d "${TMPDIR:-/var/tmp}/aquifer-image.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
# The standalone programs make the user and folders of the package, in place of systemd. As in etc/container/Dockerfile.
packages=libfabric1,systemd-standalone-sysusers,systemd-standalone-tmpfiles
cp "$deb" "$work/aquifer.deb"
# What mmdebstrap takes from this machine, and package tools keep of themselves, is not of the image.
# shellcheck disable=SC2016 # hooks get the root as $1
mmdebstrap --quiet --variant=minbase --include=$packages \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-include=/usr/share/doc/*/copyright' --dpkgopt='path-include=/usr/share/doc/aquifer/*' \
    --customize-hook="upload '$work/aquifer.deb' /tmp/aquifer.deb" \
    --customize-hook='chroot "$1" apt-get install -y -qq --no-install-recommends /tmp/aquifer.deb >/dev/null && rm "$1/tmp/aquifer.deb"' \
    --customize-hook='mkdir -p "$1/flash" && chmod 1777 "$1/flash"' \
    --customize-hook='cd "$1" && rm -rf etc/hostname etc/resolv.conf var/cache/ldconfig/* var/cache/debconf/*-old var/log/apt/* var/log/*.log' \
    "$suite" "$work/root.tar" || {
    say "image: mmdebstrap failed; it needs the network, and root or user namespaces" >&2
    exit 1
}
scripts/image.py "$work/root.tar" "$out.new" "$version"
mv "$out.new" "$out"
ls -l "$out"
