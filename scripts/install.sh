#!/bin/sh
# Installs what has been built.
#
#   scripts/install.sh DESTDIR PREFIX [LIBDIR [PLUGINS]]
#
# DESTDIR may be empty; it is for packagers. LIBDIR, below PREFIX [lib]: the library that programs link with. PLUGINS, below PREFIX
# [LIBDIR]: the libraries that the command and other programs load; the command looks into lib and lib/aquifer.
set -eu
. "$(dirname "$0")/env.sh"
prefix=${2:?prefix missing}
root=${1}$prefix
libdir=${3:-lib}
plugins=${4:-$libdir}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# fill TEMPLATE FILE: writes FILE with what this installation has at the marks of TEMPLATE.
fill() {
    # From the folder of the CMake package up to PREFIX.
    up=$(printf '%s/cmake/aquifer' "$libdir" | sed 's|[^/][^/]*|..|g')
    install -d "$(dirname "$2")"
    sed -e "s|@PREFIX@|$prefix|" -e "s|@LIBDIR@|$libdir|" -e "s|@UP@|$up|" -e "s|@VERSION@|$version|" "$1" >"$2"
    chmod 644 "$2"
}

# copy FILE... DIRECTORY, which is made.
copy() {
    for directory in "$@"; do :; done
    install -d "$directory"
    install -m 644 "$@"
}

scripts/install-lib.sh "$root/$libdir" c
scripts/install-lib.sh "$root/$plugins" preload sqlite nbdkit
install -d "$root/bin"
install -m 755 "$BUILT/aquifer" "$root/bin/aquifer"
copy include/aquifer.h include/aquifer.hpp "$root/include"
for page in man/*.[1-8]; do
    copy "$page" "$root/share/man/man${page##*.}"
done
for document in README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE docs/howto/durable.md docs/howto/files.md \
    docs/reference/manual.md docs/reference/settings.md docs/reference/errors.md docs/reference/statistics.md \
    docs/reference/limits.md docs/reference/legal.md; do
    copy "$document" "$root/share/doc/aquifer"
done
# completions SHELL FILE
completions() {
    install -d "$(dirname "$2")"
    "$BUILT/aquifer" completions "$1" >"$2"
    chmod 644 "$2"
}
completions bash "$root/share/bash-completion/completions/aquifer"
completions zsh "$root/share/zsh/site-functions/_aquifer"
completions fish "$root/share/fish/vendor_completions.d/aquifer.fish"
fill aquifer.pc.in "$root/$libdir/pkgconfig/aquifer.pc"
fill aquifer-config.cmake.in "$root/$libdir/cmake/aquifer/aquifer-config.cmake"
fill systemd/aquifer-donate.service.in "$root/lib/systemd/system/aquifer-donate.service"
fill systemd/aquifer.sysusers "$root/lib/sysusers.d/aquifer.conf"
fill systemd/aquifer.tmpfiles "$root/lib/tmpfiles.d/aquifer.conf"
case $1$prefix in
    /usr | /usr/local)
        if [ "$(id -u)" = 0 ]; then
            ! have ldconfig || ldconfig
            ! have systemd-sysusers || systemd-sysusers aquifer.conf
            ! have systemd-tmpfiles || systemd-tmpfiles --create aquifer.conf
        fi
        ;;
esac
say "installed aquifer $version into $root"
