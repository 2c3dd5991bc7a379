# shellcheck shell=sh disable=SC2034,SC2154
# redis-server: strings, lists, hashes and sorted sets, read back by the digest that the server computes, and by the
# dumps that SAVE and the child of BGSAVE write, while clients go on writing.
needs='redis-server:redis-server redis-cli:redis-tools redis-benchmark:redis-tools redis-check-rdb:redis-tools
    python3:python3'
ram=16M

prepare() {
    python3 "$here/redis.py" "$(scaled 64)" >"$work/commands"
}

ask() {
    redis-cli -p "$port" "$@"
}

start_redis() {
    port=$(free_port)
    serve redis-server --bind 127.0.0.1 --port "$port" --save '' --appendonly no --enable-debug-command local \
        --dir "$work/$mode" --dbfilename dump --loglevel notice -- redis-cli -p "$port" ping
}

digest() {
    echo "$(ask dbsize) keys, $(ask debug digest)"
}

# A dump by a forked child, of the data at that moment.
background_save() {
    ask bgsave >/dev/null
    redis-benchmark -p "$port" -q -n 3000 -r 1000 -d 3000 -t set >/dev/null || return
    tries=0
    until ask info persistence | tr -d '\r' | grep -qx rdb_bgsave_in_progress:0; do
        tries=$((tries + 1))
        if [ $tries -gt 300 ] || ! kill -0 "$server"; then
            echo "BGSAVE does not end, or the server died of it: $(tail -n 1 "$work/$mode/log")" >&2
            return 1
        fi
        sleep 0.1
    done
    saved=$(ask info persistence | tr -d '\r' | sed -n 's/^rdb_last_bgsave_status://p')
    if [ "$saved" != ok ]; then
        echo "BGSAVE: $saved, $(grep -a 'aquifer: ' "$work/$mode/log" | tail -n 1)" >&2
        return 1
    fi
    ask --scan --pattern 'key:*' | xargs redis-cli -p "$port" del >/dev/null
}

program() {
    start_redis || return
    if ! ask --pipe <"$work/commands" >loaded 2>&1; then
        echo "loading: $(grep -a -m 1 'aquifer: ' "$work/$mode/log")" >&2
        return 1
    fi
    tail -n 1 loaded
    digest
    background_save || return
    load_natively
    digest
    ask save
    redis-check-rdb dump | grep -c 'RDB looks OK'
    redis-benchmark -p "$port" -q -n 2000 -r 1000 -d 500 -t set,get,lpush,hset,mset >benchmark || return
    grep -c 'requests per second' benchmark
    ask flushall
    ask debug reload nosave noflush
    ask dbsize
    stop_server
    load_natively
}

# The dump holds the same, whichever server wrote it: what a native server makes of it.
load_natively() (
    mode=loading
    mkdir -p "$work/$mode"
    cp dump "$work/$mode/dump"
    start_redis || exit
    tries=0
    until ask info persistence | tr -d '\r' | grep -qx loading:0 || [ $tries -gt 300 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    digest
    ask shutdown nosave
    wait "$server"
)
