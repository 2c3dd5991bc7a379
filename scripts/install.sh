#!/bin/sh
# Installs what has been built.
#
#   scripts/install.sh DESTDIR PREFIX      DESTDIR may be empty; it is for packagers
set -eu
. "$(dirname "$0")/env.sh"
prefix=${2:?prefix missing}
root=${1}$prefix
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

scripts/install-lib.sh "$root/lib"
install -d "$root/bin" "$root/include" "$root/lib/pkgconfig" "$root/lib/cmake/aquifer" "$root/share/man/man1" "$root/share/man/man3" \
    "$root/share/doc/aquifer"
install -m 755 "$BUILT/aquifer" "$root/bin/aquifer"
install -m 644 include/aquifer.h include/aquifer.hpp "$root/include/"
install -m 644 man/*.1 "$root/share/man/man1/"
for shell in bash:bash-completion/completions/aquifer zsh:zsh/site-functions/_aquifer fish:fish/vendor_completions.d/aquifer.fish; do
    install -d "$root/share/$(dirname "${shell#*:}")"
    "$BUILT/aquifer" completions "${shell%%:*}" >"$root/share/${shell#*:}"
    chmod 644 "$root/share/${shell#*:}"
done
install -m 644 man/aquifer.3 "$root/share/man/man3/"
for document in README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE docs/howto/durable.md docs/howto/files.md \
    docs/reference/manual.md docs/reference/settings.md docs/reference/errors.md docs/reference/statistics.md \
    docs/reference/limits.md docs/reference/legal.md; do
    [ ! -f "$document" ] || install -m 644 "$document" "$root/share/doc/aquifer/"
done
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" aquifer.pc.in >"$root/lib/pkgconfig/aquifer.pc"
chmod 644 "$root/lib/pkgconfig/aquifer.pc"
sed -e "s|@VERSION@|$version|" aquifer-config.cmake.in >"$root/lib/cmake/aquifer/aquifer-config.cmake"
chmod 644 "$root/lib/cmake/aquifer/aquifer-config.cmake"
install -d "$root/lib/systemd/system"
sed -e "s|@PREFIX@|$prefix|" systemd/aquifer-donate.service.in >"$root/lib/systemd/system/aquifer-donate.service"
chmod 644 "$root/lib/systemd/system/aquifer-donate.service"
case $1$prefix in
    /usr | /usr/local) [ "$(id -u)" != 0 ] || ! have ldconfig || ldconfig ;;
esac
say "installed aquifer $version into $root"
