#!/bin/sh
# Memory of other machines, as people use it: donors, a cluster, and an unchanged program whose data lie in their RAM while they are killed, stopped and
# started again. One result line each; exits with 1 if one failed.
#
#   tests/remote/run.sh
#   AQUIFER=PATH    the aquifer command [build/bin/aquifer or target/release/aquifer]
set -u
cd "$(dirname "$0")/../.." || exit 1

# Of the program: enough that most of it is not in --ram.
mebibytes=64 rounds=4

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
elif grep -q 'aquifer cluster init' "$work/open"; then
    pass 'a donor without certificates keeps to this machine'
else
    fail "a donor without certificates: $(cat "$work/open")"
fi

end_donors
exit $failed
