# shellcheck shell=sh disable=SC2034,SC2154
# memcached: values read back after sets, deletes and changes; then memccapable, a test suite of its protocols.
needs='memcached:memcached python3:python3 memccapable:libmemcached-tools'
ram=16M

program() {
    port=$(free_port)
    user=''
    [ "$(id -u)" != 0 ] || user='-u root'
    # shellcheck disable=SC2086 # options are words
    serve memcached $user -l 127.0.0.1 -p "$port" -U 0 -m 256 -t 16 -- \
        python3 -c "import socket; socket.create_connection(('127.0.0.1', $port))" || return
    python3 "$here/memcached.py" "$port" "$(scaled 72)" || return
    memccapable -h 127.0.0.1 -p "$port" 2>&1 || return
    stop_server
}
