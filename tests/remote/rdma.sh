#!/bin/sh
# Transfers over RDMA: the Rust tests of links, donors and borrowers by the provider `verbs`, in an emulated machine with the kernel that the distribution ships,
# whose rdma_rxe is RDMA over any Ethernet. Timings in there mean nothing. One result line each; exits with 1 if one failed.
#
#   tests/remote/rdma.sh
#   AQUIFER_KERNEL=FILE    a Debian package linux-image-*, instead of downloading the newest
#   AQUIFER_RDMA_S=N       seconds after which the machine counts as hanging [900]
set -u
cd "$(dirname "$0")/../.." || exit 1
PATH=$PATH:/usr/sbin:/sbin
limit_s=${AQUIFER_RDMA_S:-900}
subject='rdma'
needs_aquifer=''
. tests/lib.sh
. scripts/env.sh

for program in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio depmod:kmod modprobe:kmod rdma:iproute2 dpkg-deb:dpkg; do
    command -v "${program%%:*}" >/dev/null || skip_all "${program%%:*} is not installed (Debian package ${program##*:})"
done
[ "$(uname -m)" = x86_64 ] || skip_all 'the emulated machine is an x86-64'
provider=$(find /usr/lib -name 'librxe-rdmav*.so' 2>/dev/null | head -n 1)
[ -n "$provider" ] || skip_all 'user space does not know rdma_rxe (Debian package ibverbs-providers)'
case $(ldd "$(command -v busybox)" 2>&1) in
    *'not a dynamic'*) ;;
    *) skip_all 'busybox is not static (Debian package busybox-static)' ;;
esac

work=$(mktemp -d "${TMPDIR:-/var/tmp}/aquifer-rdma.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# ---- The kernel --------------------------------------------------------------------------------------------------------------

kernel=${AQUIFER_KERNEL:-}
if [ -z "$kernel" ]; then
    newest=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: //p' | head -n 1)
    [ -n "$newest" ] || skip_all 'there is no package linux-image-amd64'
    (cd "$work" && apt-get download "$newest") >"$work/download" 2>&1 || skip_all "the kernel cannot be had: $(tail -n 1 "$work/download")"
    kernel=$(find "$work" -name 'linux-image-*.deb')
fi
dpkg-deb --extract "$kernel" "$work/kernel" || skip_all "not a package: $kernel"
image=$(find "$work/kernel/boot" -name 'vmlinuz-*')
version=${image##*/vmlinuz-}
modules=$work/kernel
[ -d "$modules/lib/modules" ] || modules=$work/kernel/usr
depmod --basedir "$modules" "$version"
# Loaded first: rdma_rxe asks for it by another name.
wanted='crc32_generic dummy rdma_rxe rdma_ucm ib_uverbs'
files=$(for module in $wanted; do
    modprobe --dirname "$modules" --set-version "$version" --show-depends "$module" 2>/dev/null || echo "missing $module"
done | sed -n 's/^insmod //p' | awk '!seen[$1]++ { print $1 }')
case $files in
    *rdma_rxe*) ;;
    *) skip_all "the kernel $version has no rdma_rxe" ;;
esac

# ---- What the machine has ----------------------------------------------------------------------------------------------------

"$CARGO" test --package aquifer-remote --no-run --message-format=json --test link --test lending 2>"$work/build" |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' >"$work/tests"
[ -s "$work/tests" ] || { fail "the tests are not built: $(tail -n 1 "$work/build")"; exit 1; }

root=$work/root
mkdir -p "$root/bin" "$root/dev" "$root/proc" "$root/sys" "$root/tmp" "$root/modules" "$root/tests" "$root/etc"
# with_libraries FILE...: copies programs, and what they are linked to, to the same places.
with_libraries() {
    for file in "$@"; do
        echo "$file"
        ldd "$file" 2>/dev/null | awk '$2 == "=>" { print $3 } $1 ~ /^\// { print $1 }'
    done | sort -u | while read -r file; do
        mkdir -p "$root$(dirname "$file")"
        cp -L "$file" "$root$file"
    done
}
cp "$(command -v busybox)" "$root/bin/"
with_libraries "$(command -v rdma)" "$(ldconfig -p | sed -n 's/.*libfabric\.so\.1 .*=> //p' | head -n 1)" "$provider"
mkdir -p "$root/etc/libibverbs.d"
cp /etc/libibverbs.d/rxe.driver "$root/etc/libibverbs.d/"
while read -r test; do
    with_libraries "$test"
    mv "$root$test" "$root/tests/"
done <"$work/tests"
for file in $files; do
    cp "$file" "$root/modules/"
done
{
    echo 'order="'
    for file in $files; do
        basename "$file"
    done
    echo '"'
} >"$root/modules/order"
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs none /dev; mount -t proc none /proc; mount -t sysfs none /sys; mount -t tmpfs none /tmp
mkdir -p /var/tmp
. /modules/order
for module in $order; do
    insmod "/modules/$module" || echo "module $module: no"
done
ip link set lo up
ip link add dummy0 type dummy
ip link set dummy0 mtu 4200 up
ip address add 10.77.1.1/24 dev dummy0
rdma link add rxe0 type rxe netdev dummy0
rdma link
ulimit -l unlimited
for test in /tests/*; do
    echo "begins: ${test##*/}"
    AQUIFER_TEST_PROVIDER=verbs AQUIFER_TEST_HOST=10.77.1.1 TMPDIR=/tmp "$test" --test-threads=1 2>&1
    echo "ends: ${test##*/} $?"
done
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/initramfs" || exit 1

# ---- The machine -------------------------------------------------------------------------------------------------------------

timeout "$limit_s" qemu-system-x86_64 -accel tcg,thread=multi -smp 2 -m 1536 -nographic -no-reboot -nic none -kernel "$image" -initrd "$work/initramfs" \
    -append 'console=ttyS0 quiet panic=-1' </dev/null >"$work/console" 2>&1
ended=$?
if ! grep -q '^link rxe0/1 state ACTIVE' "$work/console"; then
    fail "there is no RDMA in the machine: $(tail -n 5 "$work/console")"
    exit 1
fi
while read -r test; do
    name=$(basename "$test")
    if grep -q "^ends: $name 0" "$work/console"; then
        pass "${name%-*}: $(sed -n "/^begins: $name/,/^ends: $name/p" "$work/console" | grep 'test result' | tr -d '\r')"
    else
        fail "${name%-*}: $(sed -n "/^begins: $name/,/^ends: $name/p" "$work/console" | grep -a 'panicked\|FAILED\|failed' | tr -d '\r' | head -n 12) (exit status $ended)"
    fi
done <"$work/tests"
[ -z "${AQUIFER_RDMA_LOG:-}" ] || cp "$work/console" "$AQUIFER_RDMA_LOG"
# shellcheck disable=SC2154 # tests/lib.sh
exit "$failed"
