#!/bin/sh
# Where programs run that may not do what they like: limits on address space and open files, a root that is read-only, no /proc, no /dev/shm, processes
# that are hidden. Each run gives the right bytes. Prints one line per place; what this machine cannot make is skipped.
#
#   reach.sh AQUIFER
set -u
aquifer=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=${AQUIFER_TEST_DIR:?}
failed=0

"${CC:-cc}" -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror "$here/steady.c" -o "$work/steady" || exit 1

# works NAME COMMAND...: COMMAND, which is given the managed run, prints what that prints.
works() {
    name=$1
    shift
    timeout -k 5 120 "$@" >"$work/out" 2>"$work/err"
    status=$?
    if [ "$status" = 0 ] && grep -q '^right$' "$work/out"; then
        echo "ok preload reach: $name"
    else
        echo "FAIL preload reach: $name: status $status, $(tail -1 "$work/out") $(tail -1 "$work/err")"
        failed=1
    fi
}

# run FOLDER: the managed run, with its flash in that folder, after a limit.
# shellcheck disable=SC2016 # for the shell that runs it
run='"$1" run --ram 16M --flash "$2" --flash-size 512M -- "$3" 130 0 "$2/none" && rm -f "$2/none"'
limited() {
    works "$1" sh -c "trap 'rm -f \"\$2/none\"' EXIT; (while [ ! -e \"\$2/none\" ]; do sleep 0.1; done; rm -f \"\$2/none\") & $2; $run" \
        sh "$aquifer" "$work" "$work/steady"
}

limited 'ulimit -v of 4 GiB' 'ulimit -v 4194304'
limited 'ulimit -v of 1 GiB' 'ulimit -v 1048576'
limited 'ulimit -n of 64' 'ulimit -n 64'

# In a container with a read-only root and one writable folder, as a user who is not root: what of the kernel is there, as the arguments of bwrap.
contained() {
    name=$1
    shift
    set -- bwrap --ro-bind / / --unshare-all --uid 65534 --gid 65534 --die-with-parent "$@" --tmpfs "$work/inside"
    if ! timeout 20 "$@" true 2>"$work/err"; then
        echo "skip preload reach: $name: $(head -1 "$work/err")"
        return
    fi
    works "$name" "$@" sh -c "(while [ ! -e \"\$2/none\" ]; do sleep 0.1; done; rm -f \"\$2/none\") & $run" \
        sh "$aquifer" "$work/inside" "$work/steady"
}

mkdir "$work/inside"
if command -v bwrap >/dev/null; then
    contained 'a read-only root' --dev /dev --proc /proc
    contained 'no /proc' --dev /dev --tmpfs /proc
    contained 'no /dev/shm' --tmpfs /dev --dev-bind /dev/null /dev/null --proc /proc
else
    echo 'skip preload reach: containers: bwrap is missing (package bubblewrap)'
fi

# Processes of others are hidden.
if [ "$(id -u)" != 0 ] || ! unshare -pmf --mount-proc mount -o remount,hidepid=2 /proc 2>/dev/null; then
    echo 'skip preload reach: hidden processes: no /proc can be mounted so'
else
    mkdir "$work/open" && chmod 777 "$work/open"
    works 'hidden processes' unshare -pmf --mount-proc sh -c "mount -o remount,hidepid=2 /proc &&
        exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c '(while [ ! -e \"\$2/none\" ]; do sleep 0.1; done; rm -f \"\$2/none\") & $run' sh \"\$@\"" \
        sh "$aquifer" "$work/open" "$work/steady"
fi
exit $failed
