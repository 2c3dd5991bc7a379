#!/bin/sh
# A cluster of several hosts on this machine: network namespaces joined by a bridge, a donor in each, a borrower in another. While an unchanged program works in
# the donors' RAM they are killed, stopped, cut off and started again, at times that a seed decides; what the program prints must be the same as natively.
# One result line each; exits with 1 if one failed.
#
#   tests/remote/cluster.sh [RUNS]      how often, each time with another seed [3]
#   AQUIFER=PATH    the aquifer command [build/bin/aquifer or target/release/aquifer]
#   SEED=NUMBER     the first seed [1]
#   NETEM=WORDS     what tc's netem does to every link, such as "delay 200us loss 0.1%" [nothing]
set -u
cd "$(dirname "$0")/../.." || exit 1
runs=${1:-3} seed=${SEED:-1} netem=${NETEM:-}
hosts='1 2 3 4' mebibytes=48 rounds=8
PATH=$PATH:/usr/sbin:/sbin

subject='cluster'
. tests/lib.sh
command -v python3 >/dev/null || skip_all 'python3 is not installed'
command -v ip >/dev/null || skip_all 'ip is not installed (Debian package iproute2)'
[ "$(id -u)" = 0 ] || skip_all 'making network namespaces needs root'

work=$(mktemp -d "${TMPDIR:-/var/tmp}/aquifer-cluster.XXXXXX") || exit 1
name=aq$$
clean() {
    for file in "$work"/donor.*.pid; do
        [ -e "$file" ] || continue
        pid=$(cat "$file")
        kill -CONT "$pid" 2>/dev/null
        kill -KILL "$pid" 2>/dev/null
    done
    for host in hub borrower $hosts; do
        ip netns del "$name-$host" 2>/dev/null
    done
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

# ---- The network: every host a namespace, all of it in namespaces of our own --------------------------------------------------

ip netns add "$name-hub" 2>"$work/errors" || skip_all "no network namespace can be made here: $(cat "$work/errors")"
ip -n "$name-hub" link add bridge type bridge 2>"$work/errors" || skip_all "no bridge can be made here: $(cat "$work/errors")"
ip -n "$name-hub" link set bridge up

# join HOST ADDRESS
join() {
    ip netns add "$name-$1" &&
        ip -n "$name-hub" link add "port-$1" type veth peer name eth0 netns "$name-$1" &&
        ip -n "$name-hub" link set "port-$1" master bridge up &&
        ip -n "$name-$1" address add "$2/24" dev eth0 &&
        ip -n "$name-$1" link set eth0 up &&
        ip -n "$name-$1" link set lo up || skip_all 'no hosts can be made here'
    # shellcheck disable=SC2086 # words
    [ -z "$netem" ] || ip netns exec "$name-$1" tc qdisc add dev eth0 root netem $netem || skip_all "tc does not know: $netem"
}
join borrower 10.77.0.100
for host in $hosts; do
    join "$host" "10.77.0.$host"
done

(cd "$work" && "$AQUIFER" cluster init cluster && for host in borrower $hosts; do
    "$AQUIFER" cluster join cluster "$host" --into "host-$host" || exit 1
done) >"$work/made" 2>&1 || fail "certificates: $(cat "$work/made")"

# donate HOST: starts its donor. All hosts are one machine, so each lends to its own.
donate() {
    ip netns exec "$name-$1" "$AQUIFER" donate --listen "10.77.0.$1:7447" --cluster "$work/host-$1" --lend 64M --slab 4M --headroom 64M \
        --domain "host-$1" --lend-to-own-machine >"$work/donor.$1" 2>&1 &
    echo $! >"$work/donor.$1.pid"
}
for host in $hosts; do
    donate "$host"
done
donors=$(for host in $hosts; do printf '10.77.0.%s:7447,' "$host"; done)
donors=${donors%,}
tries=0
# shellcheck disable=SC2086 # a list
# shellcheck disable=SC2046 # words
until ip netns exec "$name-borrower" "$AQUIFER" donors $(echo "$donors" | tr , ' ') --cluster "$work/host-borrower" >"$work/list" 2>&1 &&
    [ "$(grep -c ' 16 ' "$work/list")" = 4 ]; do
    tries=$((tries + 1))
    [ $tries -gt 100 ] && break
    sleep 0.2
done
if [ $tries -le 100 ]; then
    pass 'four donors lend'
else
    grep -q libfabric "$work/donor.1" && skip_all "$(tail -n 1 "$work/donor.1")"
    fail "four donors lend: $(cat "$work/list")"
fi

# ---- Trouble --------------------------------------------------------------------------------------------------------------------

# next LIMIT: a number below it that the seed decides, in $picked.
next() {
    state=$(((state * 1103515245 + 12345) % 2147483648))
    picked=$((state / 65536 % $1))
}

# trouble: until the program ends, one host after the other.
trouble() {
    while [ ! -e "$work/ended" ]; do
        next 4
        host=$((picked + 1))
        pid=$(cat "$work/donor.$host.pid")
        next 4
        case $picked in
            0)
                echo "host $host: killed, started again"
                kill -KILL "$pid"
                sleep 0.5
                donate "$host"
                ;;
            1)
                echo "host $host: stopped for two seconds"
                kill -STOP "$pid"
                sleep 2
                kill -CONT "$pid"
                ;;
            2)
                echo "host $host: cut off for two seconds"
                ip -n "$name-hub" link set "port-$host" down
                sleep 2
                ip -n "$name-hub" link set "port-$host" up
                ;;
            3)
                echo "host $host: ended in order, started again"
                kill -TERM "$pid"
                sleep 0.5
                donate "$host"
                ;;
        esac
        next 20
        sleep "0.$((picked / 10 + 1))$((picked % 10))"
    done
}

python3 tests/remote/work.py $mebibytes $rounds >"$work/native" || fail 'the program natively'
for run in $(seq "$seed" $((seed + runs - 1))); do
    state=$run
    rm -f "$work/ended"
    trouble >"$work/trouble" 2>&1 &
    maker=$!
    if timeout 600 ip netns exec "$name-borrower" "$AQUIFER" run --ram 12M --flash "$work" --flash-size 512M --donors "$donors" --cluster "$work/host-borrower" \
        --report -- python3 tests/remote/work.py $mebibytes $rounds >"$work/managed" 2>"$work/errors"; then
        if cmp -s "$work/native" "$work/managed"; then
            pass "seed $run: $(grep -c '^host' "$work/trouble") troubles, the same bytes"
        else
            fail "seed $run: $(diff "$work/native" "$work/managed" | head -n 4)"
        fi
    else
        fail "seed $run: $(tail -n 3 "$work/errors")"
    fi
    : >"$work/ended"
    wait "$maker"
    # shellcheck disable=SC2086
    for host in $hosts; do
        kill -0 "$(cat "$work/donor.$host.pid")" 2>/dev/null || donate "$host"
    done
done

# A borrower is gone without a word: its slabs come back.
tries=0
until [ $tries -gt 150 ] || [ "$(ip netns exec "$name-borrower" "$AQUIFER" donors "10.77.0.1:7447" --cluster "$work/host-borrower" 2>/dev/null | grep -c ' 16       16 ')" = 1 ]; do
    tries=$((tries + 1))
    sleep 0.2
done
if [ $tries -le 150 ]; then
    pass 'what was lent is back'
else
    fail "what was lent is not back: $(ip netns exec "$name-borrower" "$AQUIFER" donors 10.77.0.1:7447 --cluster "$work/host-borrower" 2>&1)"
fi
exit $failed
