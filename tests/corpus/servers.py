"""Fills and asks a server: servers.py redis|memcached DATA|COUNT -- COMMAND of the server. Prints what it answered.

The server listens at the path "socket" in this directory, which reaches into a network namespace of its own.
"""
import hashlib
import socket
import subprocess
import sys
import time

TRIES = 200
BATCH = 50
PATH = "socket"


def connected(path=PATH):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))
    return connection


def wait_for(what, asks):
    """Waits until `asks` answers true."""
    for _ in range(TRIES):
        if asks():
            return
        time.sleep(0.1)
    sys.exit(f"{what} takes more than {TRIES / 10:.0f} s")


def answers(path=PATH):
    try:
        connected(path).close()
    except OSError:
        return False
    return True


def redis(commands):
    """Digests after a fill, after deletions, and of a dump by a forked child that is loaded again."""

    def ask(*words):
        command = ["redis-cli", "-s", PATH, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    with open(commands, "rb") as file:
        filled = subprocess.run(["redis-cli", "-s", PATH, "--pipe"], stdin=file, capture_output=True, text=True)
    print(filled.stdout.splitlines()[-1], ask("DBSIZE"), ask("DEBUG", "DIGEST"))
    script = "for i = 0, 99999, 3 do redis.call('DEL', 'text:' .. i) end return redis.call('DBSIZE')"
    print(ask("EVAL", script, "0"), ask("DEBUG", "DIGEST"))
    ask("BGSAVE")
    ask("EVAL", "for i = 1, 99999, 5 do redis.call('SET', 'text:' .. i, string.rep('x', i % 900)) end", "0")
    changed = ask("DEBUG", "DIGEST")
    wait_for("BGSAVE", lambda: "rdb_bgsave_in_progress:0" in ask("INFO", "persistence"))
    print(changed, "rdb_last_bgsave_status:ok" in ask("INFO", "persistence"))
    print(ask("DEBUG", "RELOAD"), ask("DEBUG", "DIGEST"))
    subprocess.run(["redis-cli", "-s", PATH, "SHUTDOWN", "NOSAVE"], capture_output=True)


def memcached(count):
    """Values of many sizes, read back twice."""
    with connected() as connection:
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
        stream.write(b"shutdown\r\n")
        stream.flush()


def main():
    kind, argument, _, *server = sys.argv[1:]
    with open("log", "wb") as log:
        running = subprocess.Popen(server, stdout=log, stderr=log)
    wait_for("the start", lambda: answers() or running.poll() is not None)
    try:
        {"redis": redis, "memcached": memcached}[kind](argument)
        # It was told to, and is not ended by a signal, which its launcher may not hand on.
        wait_for("the end", lambda: running.poll() is not None)
    finally:
        if running.poll() is None:
            running.terminate()
        status = running.wait()
        with open("log", "rb") as log:
            sys.stderr.buffer.write(log.read()[-2000:])
    print("status", status)


if __name__ == "__main__":
    main()
