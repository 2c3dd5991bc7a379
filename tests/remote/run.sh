#!/bin/sh
# Memory of other machines, as people use it: donors, a cluster, and an unchanged program whose data lie in their RAM while they are killed, stopped and
# started again. One result line each; exits with 1 if one failed.
#
#   tests/remote/run.sh
#   AQUIFER=PATH    the aquifer command [build/bin/aquifer or target/release/aquifer]
#   AQUIFER_LONG    set: more data, and more rounds over them
set -u
cd "$(dirname "$0")/../.." || exit 1

# Of the program: enough that most of it is not in --ram.
mebibytes=40 rounds=3
[ -z "${AQUIFER_LONG:-}" ] || mebibytes=64 rounds=4

subject='remote'
. tests/lib.sh
command -v python3 >/dev/null || skip_all 'python3 is not installed'

work=$(mktemp -d "${TMPDIR:-/var/tmp}/aquifer-remote.XXXXXX") || exit 1
donors=''
end_donors() {
    for donor in $donors; do
        kill -CONT "$donor" 2>/dev/null
        kill -TERM "$donor" 2>/dev/null && wait "$donor" 2>/dev/null
    done
    donors=''
}
trap 'end_donors; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# donate NAME OPTION...: starts a donor; its number is in $donor, its address in $address.
donate() {
    name=$1
    shift
    : >"$work/$name"
    "$AQUIFER" donate --lend 128M --slab 8M --headroom 64M --lend-to-own-machine "$@" >"$work/$name" 2>&1 &
    donor=$!
    donors="$donors $donor"
    tries=0
    until address=$(sed -n 's/^lends at \([^ ]*\) .*/\1/p' "$work/$name") && [ -n "$address" ] && grep -q '^16 slabs' "$work/$name"; do
        tries=$((tries + 1))
        if [ $tries -gt 200 ] || ! kill -0 "$donor" 2>/dev/null; then
            return 1
        fi
        sleep 0.1
    done
}

donate probe --listen 127.0.0.1:0 || skip_all "there is no donor here: $(tail -n 1 "$work/probe")"
first=$donor first_address=$address
donate second --listen 127.0.0.1:0
second=$donor second_address=$address

if "$AQUIFER" donors "$first_address" "$second_address" >"$work/list" && [ "$(grep -c '8 MiB' "$work/list")" = 2 ]; then
    pass 'donors are listed'
else
    fail "donors are listed: $(cat "$work/list")"
fi

python3 tests/remote/work.py $mebibytes $rounds >"$work/native" || fail 'the program natively'

python3 tests/remote/work.py $mebibytes $rounds alone >"$work/native.alone" || fail 'the program natively'

# managed WHAT OPTION...: runs the program on borrowed memory, and compares. With alone=alone it has no child; children cannot read pages that donors alone have.
alone='' ram=16M
managed() {
    what=$1
    shift
    rm -f "$work/over"
    if timeout 200 "$AQUIFER" run --ram $ram --flash "$work" --flash-size 512M "$@" --report -- python3 tests/remote/work.py $mebibytes $rounds $alone \
        >"$work/managed" 2>"$work/errors"; then
        if cmp -s "$work/native${alone:+.alone}" "$work/managed"; then
            pass "$what"
        else
            fail "$what: it says $(diff "$work/native${alone:+.alone}" "$work/managed" | head -n 4)"
        fi
    else
        fail "$what: $(head -n 3 "$work/errors")"
    fi
    : >"$work/over"
}

managed 'a program in the RAM of two donors' --donors "$first_address,$second_address"
alone=alone
managed 'in both of them, and not on flash' --donors "$first_address,$second_address" --copies donor
managed 'in both of them, and neither can read it' --donors "$first_address,$second_address" --copies donor --seal
alone=''
# Small blocks alone exceed the RAM, so small ones are managed while the borrower connects: what its libraries allocate must not wait for that.
if cc -O1 -o "$work/blocks" tests/remote/blocks.c &&
    timeout -k 5 60 "$AQUIFER" run --ram 32M --flash "$work" --flash-size 512M --donors "$first_address" -- "$work/blocks" >"$work/managed" 2>"$work/errors" &&
    [ "$(cat "$work/managed")" = "$("$work/blocks")" ]; then
    pass 'small blocks alone, in the RAM of a donor'
else
    fail "small blocks alone, in the RAM of a donor: $(head -n 3 "$work/errors" "$work/managed")"
fi
# The same with a malloc of its own, whose locks the program holds meanwhile.
jemalloc=$(ldconfig -p 2>/dev/null | sed -n 's/.*libjemalloc\.so\.2 .*=> //p' | head -n 1)
if [ -z "$jemalloc" ]; then
    skip 'a malloc of its own, in the RAM of a donor: libjemalloc2 is not installed'
elif cc -O1 -o "$work/jemalloc" tests/remote/blocks.c "$jemalloc" &&
    timeout -k 5 60 "$AQUIFER" run --ram 32M --flash "$work" --flash-size 1G --donors "$first_address" -- "$work/jemalloc" >"$work/managed" 2>"$work/errors" &&
    [ "$(cat "$work/managed")" = "$("$work/jemalloc")" ]; then
    pass 'a malloc of its own, in the RAM of a donor'
else
    fail "a malloc of its own, in the RAM of a donor: $(head -n 3 "$work/errors" "$work/managed")"
fi
for log in probe second; do
    if grep -q '[1-9][0-9]* lent to 1 borrowers' "$work/$log"; then
        pass "the donor ($log) lent"
    else
        fail "the donor ($log) lent nothing: $(cat "$work/$log")"
    fi
done

# after ROUND COMMAND...: when the program has come so far.
after() {
    round=$1
    shift
    (
        tries=0
        until grep -qs "^$round " "$work/managed" || [ -e "$work/over" ] || [ $tries -gt 6000 ]; do
            tries=$((tries + 1))
            sleep 0.1
        done
        "$@"
    ) &
    watcher=$!
}

: >"$work/managed" && rm -f "$work/over"
after 1 kill -KILL "$second"
managed 'one donor killed' --donors "$first_address,$second_address" --seal
wait "$watcher"

stop_for_a_while() {
    kill -STOP "$first"
    sleep 3
    kill -CONT "$first"
}
: >"$work/managed" && rm -f "$work/over"
after 1 stop_for_a_while
managed 'the other one stopped, and going on' --donors "$first_address"
wait "$watcher"

: >"$work/managed" && rm -f "$work/over"
after 1 kill -KILL "$first"
managed 'the last one killed' --donors "$first_address"
wait "$watcher"

if "$AQUIFER" run --donors "$first_address" -- true 2>"$work/errors"; then
    fail 'no donor at all'
elif grep -q 'aquifer donate' "$work/errors"; then
    pass 'no donor at all is said'
else
    fail "no donor at all: $(cat "$work/errors")"
fi

# ---- Parity instead of a second copy ---------------------------------------

coded=''
for name in coded_first coded_second coded_third coded_fourth; do
    donate $name --listen 127.0.0.1:0
    coded="$coded${coded:+,}$address"
    eval "$name=$donor"
done
alone=alone
managed 'two slabs of data, one of parity, and not on flash' --donors "$coded" --copies 2+1
# shellcheck disable=SC2154 # set by eval
{
    : >"$work/managed" && rm -f "$work/over"
    after 1 kill -KILL "$coded_second"
    ram=24M
    managed 'one of their donors killed' --donors "$coded" --copies 2+1 --seal
    ram=16M
    wait "$watcher"
}
alone=''
if "$AQUIFER" run --donors "$coded" --copies 1+7 -- true 2>"$work/errors"; then
    fail 'a code that there is not'
elif grep -q 'as 4+2' "$work/errors"; then
    pass 'a code that there is not is said'
else
    fail "a code that there is not: $(cat "$work/errors")"
fi

# ---- Donors whose memory programs map --------------------------------------

donate mapped --listen 127.0.0.1:0 --provider memory
third=$donor third_address=$address
donate mapped_too --listen 127.0.0.1:0 --provider memory
managed 'a program that maps the memory of donors' --donors "$third_address,$address"
alone=alone
managed 'which alone have it' --donors "$third_address,$address" --copies donor --seal
alone=''
grep -q 'over memory of this machine' "$work/mapped" && grep -q '[1-9][0-9]* lent to 1 borrowers' "$work/mapped" &&
    pass 'they say so' || fail "what the donor said: $(cat "$work/mapped")"
: >"$work/managed" && rm -f "$work/over"
after 1 kill -KILL "$third"
managed 'one of them killed' --donors "$third_address,$address"
wait "$watcher"

# ---- A cluster -------------------------------------------------------------

(cd "$work" && "$AQUIFER" cluster init cluster && "$AQUIFER" cluster join cluster alpha && "$AQUIFER" cluster join cluster beta &&
    "$AQUIFER" cluster init others && "$AQUIFER" cluster join others gamma) >"$work/made" 2>&1 || fail "a cluster: $(cat "$work/made")"
if donate sealed --listen 127.0.0.1:0 --cluster "$work/alpha"; then
    managed 'a program in a cluster' --donors "$address" --cluster "$work/beta"
    for stranger in "--cluster $work/gamma" ''; do
        # shellcheck disable=SC2086 # an option and its value
        if "$AQUIFER" run --donors "$address" $stranger -- true 2>"$work/errors"; then
            fail "a stranger (${stranger:-no certificate}) borrows"
        else
            pass "a stranger (${stranger:+another cluster}) is refused"
        fi
    done
else
    fail "a donor of a cluster: $(tail -n 1 "$work/sealed")"
fi
if "$AQUIFER" donate --listen 0.0.0.0:0 >"$work/open" 2>&1; then
    fail 'a donor without certificates listens to the network'
elif grep -q 'aquifer cluster join' "$work/open"; then
    pass 'a donor without certificates keeps to this machine'
else
    fail "a donor without certificates: $(cat "$work/open")"
fi

# ---- Those who look --------------------------------------------------------

# offers FILE: what `aquifer donate --metrics` offers.
offers() {
    python3 -c 'import sys, urllib.request; sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1], timeout=10).read())' \
        "$(sed -n 's/^\(http:.*metrics\)$/\1/p' "$work/watched")" >"$1"
}
hold='
import os, sys, time
data = bytearray(48 << 20)
data[::4096] = bytes(len(data) // 4096)
open(sys.argv[1], "w").close()
while not os.path.exists(sys.argv[2]) and os.getppid() != 1:
    time.sleep(0.05)
'
rm -f "$work/ready" "$work/enough"
if donate watched --listen 127.0.0.1:0 --metrics 127.0.0.1:0; then
    timeout 120 "$AQUIFER" run --ram 16M --flash "$work" --flash-size 512M --donors "$address" --socket "$work/socket" -- \
        python3 -c "$hold" "$work/ready" "$work/enough" >"$work/managed" 2>"$work/errors" &
    holder=$!
    tries=0
    until [ -e "$work/ready" ] && "$AQUIFER" donors "$address" --borrowers >"$work/list" && grep -q '[1-9][0-9]* lent to process' "$work/list"; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] && kill -0 $holder 2>/dev/null || break
        sleep 0.1
    done
    if grep -q '[1-9][0-9]* lent to process' "$work/list"; then
        pass 'a donor says who borrows what'
    else
        fail "a donor does not say who borrows what: $(cat "$work/list" "$work/errors")"
    fi
    if "$AQUIFER" export --socket "$work/socket" --once >"$work/of.program" && offers "$work/of.donor" &&
        names=$(python3 tests/remote/metrics.py "$work/of.program" "$work/of.donor"); then
        pass "rules and dashboard name what there is: $names"
    else
        fail "rules and dashboard: ${names:-$(cat "$work/watched")}"
    fi
    if ! command -v promtool >/dev/null; then
        skip 'Prometheus reads the rules: promtool is not installed (Debian package prometheus)'
    elif promtool check rules etc/prometheus/aquifer.rules.yaml >"$work/said" 2>&1 && promtool check metrics <"$work/of.donor" >>"$work/said" 2>&1 && {
        # Names of statistics end in _ns here as everywhere, of which it says so with 3; what it cannot read is a 1.
        promtool check metrics <"$work/of.program" >>"$work/said" 2>&1 || [ $? = 3 ]
    }; then
        pass 'Prometheus reads the rules and the numbers'
    else
        fail "Prometheus: $(cat "$work/said")"
    fi
    : >"$work/enough"
    wait $holder || fail "the program that held memory: $(cat "$work/errors")"
else
    fail "a donor with numbers: $(tail -n 1 "$work/watched")"
fi

# ---- Gossip ----------------------------------------------------------------

# listed WHAT ADDRESS PATTERN COUNT [OPTION...]: waits until the list of donors that one knows has so many lines with these words.
listed() {
    what=$1 seed=$2 pattern=$3 count=$4
    shift 4
    tries=0
    until [ "$("$AQUIFER" donors "$seed" "$@" 2>"$work/errors" | tee "$work/list" | grep -c "$pattern")" = "$count" ]; do
        tries=$((tries + 1))
        if [ $tries -gt 300 ]; then
            fail "$what: $(cat "$work/list" "$work/errors")"
            return
        fi
        sleep 0.2
    done
    pass "$what"
}

end_donors
donate knows.nobody --listen 127.0.0.1:0 --domain first --gossip
seed_address=$address
donate knows.first --listen 127.0.0.1:0 --domain second --gossip "$seed_address"
second_address=$address
donate knows.first.too --listen 127.0.0.1:0 --domain third --gossip "$seed_address"
third=$donor third_address=$address
listed 'three donors know each other' "$second_address" ' alive ' 3
managed 'a program in the RAM of donors that nobody named' --donors "$seed_address"
if grep -q '[1-9][0-9]* lent to 1 borrowers' "$work/knows.first" "$work/knows.first.too"; then
    pass 'a donor that nobody named lent'
else
    fail "no donor but the one that was named lent: $(cat "$work/knows.first" "$work/knows.first.too")"
fi
lent=$(cat "$work/knows.first" "$work/knows.first.too" | grep -c ' lent to 1 ')
managed 'a program in the RAM of the named donor' --donors "$seed_address" --donors-only
if [ "$(cat "$work/knows.first" "$work/knows.first.too" | grep -c ' lent to 1 ')" = "$lent" ]; then
    pass 'no other donor lent to who keeps to those that are named'
else
    fail "another donor lent: $(cat "$work/knows.first" "$work/knows.first.too")"
fi
kill -KILL "$third"
listed 'a donor that is killed is gone' "$seed_address" "^$third_address .* gone  third" 1
if "$AQUIFER" donors "$seed_address" >"$work/list" && [ "$(grep -c ' alive ' "$work/list")" = 2 ]; then
    pass 'the others are there'
else
    fail "the others are there: $(cat "$work/list")"
fi
end_donors

if cmp -s "$work/cluster/gossip.key" "$work/alpha/gossip.key" && [ "$(stat -c %a "$work/alpha/gossip.key")" = 600 ]; then
    pass 'hosts of a cluster have its key for gossip'
else
    fail "hosts of a cluster have its key for gossip: $(ls -l "$work/cluster" "$work/alpha")"
fi
if donate sealed.first --listen 127.0.0.1:0 --cluster "$work/alpha" --gossip; then
    seed_address=$address
    donate sealed.second --listen 127.0.0.1:0 --cluster "$work/beta" --gossip "$seed_address"
    donate stranger --listen 127.0.0.1:0 --cluster "$work/gamma" --gossip "$seed_address"
    listed 'donors of a cluster know each other' "$seed_address" ' alive ' 2 --cluster "$work/beta"
    tries=0
    until grep -q '^gossip: .* does not open with this cluster' "$work/sealed.first" || [ $tries -gt 300 ]; do
        tries=$((tries + 1))
        sleep 0.2
    done
    if [ "$(grep -c 'does not open with this cluster' "$work/sealed.first")" = 1 ]; then
        pass 'gossip of a stranger is dropped, and told once'
    else
        fail "gossip of a stranger: $(cat "$work/sealed.first")"
    fi
else
    fail "a donor of a cluster: $(tail -n 1 "$work/sealed.first")"
fi
rm "$work/beta/gossip.key"
if "$AQUIFER" donate --listen 127.0.0.1:0 --cluster "$work/beta" --gossip >"$work/keyless" 2>&1; then
    fail 'a host without a key gossips'
elif grep -q 'aquifer cluster init' "$work/keyless"; then
    pass 'a host without a key is told where it is'
else
    fail "a host without a key: $(cat "$work/keyless")"
fi
if timeout 60 "$AQUIFER" donate --listen 127.0.0.1:0 --gossip 192.0.2.1:7447 >"$work/far" 2>&1; then
    fail 'gossip without a key leaves this machine'
elif grep -q 'name the host' "$work/far"; then
    pass 'gossip without a key keeps to this machine'
else
    fail "gossip without a key: $(cat "$work/far")"
fi

end_donors
exit $failed
