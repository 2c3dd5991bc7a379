#!/usr/bin/env python3
"""How long redis takes to save what is larger than its RAM: a forked child reads all of it, in the order of a hash.

Natively, under aquifer run, and natively with kernel swap (root), in the RAM that server and child had under aquifer run
for anonymous memory and page tables. Prints a table of seconds.

Example: AQUIFER=build/bin/aquifer tests/corpus/save.py --ram 96M --keys 280000
"""
import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from servers import answers, wait_for
from swap import Swap, why_no_swap

TREE = Path(__file__).resolve().parents[2]
# Hashes of 20 short fields, as sessions are.
FILL = """for i = ARGV[1], ARGV[2] do for f = 0, 19 do
  redis.call('HSET', 'h:' .. i, 'f' .. f, string.rep(string.char(97 + (i + f) % 26), 10 + (i * 7 + f * 3) % 30))
end end return 1"""
PART = 20000


class Server:
    """A redis-server in `folder`, started by a shell after `prefix`."""

    def __init__(self, folder, prefix, tick):
        self.path, self.tick, self.peak_kib, self.dump = folder / "socket", tick, 0, folder / "dump.rdb"
        options = f"--port 0 --unixsocket {self.path} --save '' --appendonly no --dir {folder}"
        with open(folder / "log", "wb") as log:
            self.process = subprocess.Popen(["sh", "-c", f"{prefix} redis-server {options}"], stdout=log, stderr=log)

    def fill(self, keys):
        """Makes so many hashes."""
        wait_for("the start", lambda: answers(self.path))
        for first in range(0, keys, PART):
            self.expect("1", "EVAL", FILL, "0", str(first), str(min(first + PART, keys) - 1))
            self.look()
        self.expect(str(keys), "DBSIZE")

    def ask(self, *words):
        command = ["redis-cli", "-s", self.path, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def expect(self, answer, *words):
        """Ends with what redis answered, if that is something else: its client does not tell errors by its status."""
        if (told := self.ask(*words)) != answer:
            sys.exit(f"redis answered {told!r} to {words[0]}")

    def look(self):
        """Notes the RAM of server and child; what they share counts once."""
        self.tick()
        found = subprocess.run(["pgrep", "-f", f"redis-(server|rdb-bgsave).*:{self.path}"], capture_output=True, text=True)
        total = 0
        for number in found.stdout.split():
            for file, name in (("smaps_rollup", "Pss_Anon:"), ("status", "VmPTE:")):
                try:
                    lines = Path("/proc", number, file).read_text().splitlines()
                except OSError:
                    continue
                total += sum(int(line.split()[1]) for line in lines if line.startswith(name))
        self.peak_kib = max(self.peak_kib, total)

    def save(self):
        began = time.monotonic()
        self.expect("Background saving started", "BGSAVE")
        while "rdb_bgsave_in_progress:0" not in (told := self.ask("INFO", "persistence")):
            self.look()
            time.sleep(0.05)
        if "rdb_last_bgsave_status:ok" not in told:
            sys.exit("redis could not save")
        return time.monotonic() - began

    def end(self):
        subprocess.run(["redis-cli", "-s", self.path, "SHUTDOWN", "NOSAVE"], capture_output=True)
        self.process.wait()
        # The next server would load it.
        self.dump.unlink(missing_ok=True)


def saves(folder, prefix, options, tick=lambda: None):
    """Seconds of each save, and the most RAM."""
    server = Server(folder, prefix, tick)
    try:
        server.fill(options.keys)
        return [server.save() for _ in range(options.runs)], server.peak_kib / 1024
    finally:
        server.end()


def main():
    description, example = __doc__.split("\n\nExample: ")
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, epilog=f"Example: {example}", formatter_class=kind)
    parser.add_argument("--ram", default="96M", help="of aquifer run [96M]")
    parser.add_argument("--keys", type=int, default=280000, help="hashes of 700 bytes [280000]")
    parser.add_argument("--runs", type=int, default=5, help="saves of each server [5]")
    options = parser.parse_args()
    aquifer = Path(os.environ.get("AQUIFER", TREE / "build" / "bin" / "aquifer")).resolve()
    if not os.access(aquifer, os.X_OK):
        parser.error(f"there is no {aquifer}; 'make lib' builds it, or name another: AQUIFER=path")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        folder, rows = Path(folder), []
        rows.append(("natively", *saves(folder, "exec", options)))
        managed = f"exec {aquifer} run --ram {options.ram} --flash-size 4G --"
        rows.append((f"aquifer run --ram {options.ram}", *saves(folder, managed, options)))
        if why := why_no_swap():
            print(f"kernel swap is left out: {why}", file=sys.stderr)
        else:
            ram_mib = int(rows[1][2]) + 1
            with Swap(folder, ram_mib, 1024) as swap:
                rows.append((f"kernel swap, {ram_mib} MiB", *saves(folder, f"{swap.prefix()} exec", options, swap.refresh)))
    print("| server | seconds of a save, median | of all | RAM, most MiB |\n| --- | --- | --- | --- |")
    for name, seconds, peak in rows:
        each = " ".join(f"{second:.1f}" for second in seconds)
        print(f"| {name} | {statistics.median(seconds):.1f} | {each} | {peak:.0f} |")


if __name__ == "__main__":
    main()
