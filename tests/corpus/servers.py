"""Fills and asks a server: servers.py redis|memcached DATA|COUNT -- COMMAND of the server. Prints what it answered."""
import hashlib
import socket
import subprocess
import sys
import time

TRIES = 200
BATCH = 50


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(what, asks):
    """Waits until `asks` answers true."""
    for _ in range(TRIES):
        if asks():
            return
        time.sleep(0.1)
    sys.exit(f"{what} takes more than {TRIES / 10:.0f} s")


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def redis(port, commands):
    """Digests after a fill, after deletions, and of a dump by a forked child that is loaded again."""

    def ask(*words):
        command = ["redis-cli", "-p", str(port), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    with open(commands, "rb") as file:
        filled = subprocess.run(["redis-cli", "-p", str(port), "--pipe"], stdin=file, capture_output=True, text=True)
    print(filled.stdout.splitlines()[-1], ask("DBSIZE"), ask("DEBUG", "DIGEST"))
    script = "for i = 0, 99999, 3 do redis.call('DEL', 'text:' .. i) end return redis.call('DBSIZE')"
    print(ask("EVAL", script, "0"), ask("DEBUG", "DIGEST"))
    ask("BGSAVE")
    ask("EVAL", "for i = 1, 99999, 5 do redis.call('SET', 'text:' .. i, string.rep('x', i % 900)) end", "0")
    changed = ask("DEBUG", "DIGEST")
    wait_for("BGSAVE", lambda: "rdb_bgsave_in_progress:0" in ask("INFO", "persistence"))
    print(changed, "rdb_last_bgsave_status:ok" in ask("INFO", "persistence"))
    print(ask("DEBUG", "RELOAD"), ask("DEBUG", "DIGEST"))
    subprocess.run(["redis-cli", "-p", str(port), "SHUTDOWN", "NOSAVE"], capture_output=True)


def memcached(port, count):
    """Values of many sizes, read back twice."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        stream, digest = connection.makefile("rwb"), hashlib.sha256()
        for i in range(int(count)):
            value = hashlib.sha256(b"%d" % i).digest() * (1 + i % 40)
            stream.write(b"set k%d 0 0 %d noreply\r\n%s\r\n" % (i, len(value), value))
        keys = [i * 7919 % int(count) for i in range(int(count))] * 2
        for first in range(0, len(keys), BATCH):
            batch = keys[first:first + BATCH]
            stream.write(b"get " + b" ".join(b"k%d" % key for key in batch) + b"\r\n")
            stream.flush()
            for key in batch:
                _, name, _, size = stream.readline().split()
                value = stream.read(int(size) + 2)[:-2]
                if name != b"k%d" % key or value != hashlib.sha256(b"%d" % key).digest() * (1 + key % 40):
                    sys.exit(f"k{key} has a wrong value")
                digest.update(value)
            stream.readline()
        print(digest.hexdigest())


def main():
    kind, argument, _, *server = sys.argv[1:]
    port = free_port()
    command = [word.replace("PORT", str(port)) for word in server]
    with open("log", "wb") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log)
    wait_for("the start", lambda: answers(port) or running.poll() is not None)
    try:
        {"redis": redis, "memcached": memcached}[kind](port, argument)
    finally:
        if running.poll() is None:
            running.terminate()
        status = running.wait()
        with open("log", "rb") as log:
            sys.stderr.buffer.write(log.read()[-2000:])
    print("status", status)


if __name__ == "__main__":
    main()
