#!/usr/bin/env python3
"""A mounted volume beside ext4, both in files of one folder: wall time and processor time of each work, and their ratios.

  tests/mount/speed.py [--rounds N] [--files N] [--seed N] [--bytes MIB] [--rows N] [--work NAME,NAME] [--write-back]
                       [--no-xattrs]

AQUIFER=PATH    the aquifer command
AQUIFER_SPEED_DIR=PATH    where volume, image and archive are made [$TMPDIR or /var/tmp]

The tree of files is made from the seed. Works that say cold come after both were mounted anew. Each round does all works, first on one side, then on the
other; the next round the other way around. Figures are medians. Processor time is that of the programs, and of the process that serves the mount: where other
programs run on the machine, it says more than wall time. Needs root, loop devices, /dev/fuse and mkfs.ext4, and says which of them is missing.
"""
import argparse
import io
import os
import random
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

# (name, how much time of ext4's is wanted at most)
WORKS = [
    ("untar", 2.5), ("read all cold", 2.5), ("ls -lR cold", 2.0), ("ls -lR warm", 2.0), ("rm -r", None),
    ("write", 1 / 0.8), ("read cold", 1 / 0.6), ("sqlite update", 2.0),
]
TICKS = os.sysconf("SC_CLK_TCK")
MIB = 1 << 20


def missing():
    """What this machine lacks, or nothing."""
    if os.geteuid() != 0:
        return "ext4 can be mounted by root alone"
    for path in "/dev/fuse", "/dev/loop-control":
        if not os.path.exists(path):
            return f"there is no {path} here"
    for program in "mkfs.ext4", "tar", "dd":
        if not shutil.which(program):
            return f"{program} is not installed"
    return None


def make_archive(path, files, seed):
    """An archive of `files` files in folders of twenty, as sources are: most are short, a few are long, half of each is text."""
    choose = random.Random(seed)
    pool = choose.randbytes(MIB)
    words = " ".join(f"word{choose.randrange(5000)}" for _ in range(1 << 17)).encode()
    with tarfile.open(path, "w") as archive:
        for n in range(files):
            entry = tarfile.TarInfo(f"tree/{n // 2000}/{n // 20 % 100}/file{n:06}.c")
            size = min(int(choose.lognormvariate(8.6, 1.2)), 512 << 10)
            source = pool if choose.random() < 0.5 else words
            at = choose.randrange(len(source) - min(size, len(source) - 1))
            data = source[at:at + size]
            entry.size, entry.mtime, entry.mode = len(data), 1_700_000_000 + n, 0o644
            archive.addfile(entry, io.BytesIO(data))


def run(*command, **options):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)


class Ext4:
    """ext4 in an image, through a loop device without a cache of its own."""
    name = "ext4"

    def __init__(self, work, mib):
        self.image, self.folder = f"{work}/image", f"{work}/ext4"
        with open(self.image, "wb") as image:
            os.posix_fallocate(image.fileno(), 0, mib * MIB)
        run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.image)
        os.mkdir(self.folder)
        loop = subprocess.run(("losetup", "--direct-io=on", "-f", "--show", self.image), check=True, capture_output=True)
        self.loop = loop.stdout.decode().strip()

    def mount(self):
        run("mount", "-o", "noatime", self.loop, self.folder)

    def unmount(self):
        run("umount", self.folder)

    def end(self):
        subprocess.run(("losetup", "-d", self.loop), check=False)

    def ticks(self):
        return 0


class Volume:
    """A volume at a folder."""
    name = "aquifer"

    def __init__(self, work, mib, options):
        self.command = os.environ.get("AQUIFER") or "target/release/aquifer"
        self.volume, self.folder, self.options, self.process = f"{work}/volume", f"{work}/mounted", options, None
        run(self.command, "volume", "create", self.volume, "--size", f"{mib}M")
        os.mkdir(self.folder)

    def mount(self):
        command = (self.command, "volume", "mount", "--foreground", *self.options, self.volume, self.folder)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        if b"is mounted" not in self.process.stdout.readline():
            sys.exit("the volume could not be mounted")

    def unmount(self):
        run("umount", self.folder)
        self.process.wait(timeout=300)

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def ticks(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])


class Round:
    """All works on one side."""

    def __init__(self, side, arguments, archive):
        self.side, self.arguments, self.archive, self.figures = side, arguments, archive, {}

    def timed(self, name, *command, **options):
        if not any(name.startswith(wanted) for wanted in self.arguments.work.split(",")):
            if name.startswith(("untar", "write")):
                run(*command, **options)
            return
        used, start = self.used(), time.monotonic()
        run(*command, **options)
        self.figures[name] = time.monotonic() - start, self.used() - used

    def used(self):
        """Seconds of processors so far, of programs that ended and of the process that serves the mount."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime + self.side.ticks() / TICKS

    def anew(self):
        self.side.unmount()
        self.side.mount()

    def run(self):
        folder, mib = self.side.folder, self.arguments.bytes
        self.side.mount()
        self.timed("untar", "tar", "xf", self.archive, "-C", folder)
        self.anew()
        self.timed("read all cold", "sh", "-c", f"find {folder}/tree -type f -print0 | xargs -0 cat")
        self.anew()
        self.timed("ls -lR cold", "ls", "-lR", folder)
        self.timed("ls -lR warm", "ls", "-lR", folder)
        self.timed("rm -r", "rm", "-r", f"{folder}/tree")
        shutil.rmtree(f"{folder}/tree", ignore_errors=True)
        self.timed("write", "dd", "if=/dev/zero", f"of={folder}/long", "bs=1M", f"count={mib}", "conv=fsync", "status=none")
        self.anew()
        self.timed("read cold", "dd", f"if={folder}/long", "of=/dev/null", "bs=1M", "status=none")
        os.remove(f"{folder}/long")
        make_base(f"{folder}/base", self.arguments.rows)
        self.timed("sqlite update", sys.executable, __file__, "--update", f"{folder}/base", str(self.arguments.rows))
        for name in os.listdir(folder):
            if name.startswith("base"):
                os.remove(f"{folder}/{name}")
        self.side.unmount()
        return self.figures


def make_base(path, rows):
    """A table with an index."""
    base = sqlite3.connect(path)
    base.execute("PRAGMA journal_mode=DELETE")
    base.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT)")
    base.executemany("INSERT INTO t VALUES (?, ?, ?)", ((n, n * 7919 % rows, f"row {n} " * 4) for n in range(rows)))
    base.execute("CREATE INDEX i ON t (a)")
    base.commit()
    base.close()


def update(path, rows):
    """Changes a column of all rows that has an index, in one transaction with a rollback journal."""
    base = sqlite3.connect(path)
    base.execute("PRAGMA journal_mode=DELETE")
    base.execute("UPDATE t SET a = a * 31 % ?", (rows,))
    base.commit()
    base.close()


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bytes", type=int, default=512, metavar="MIB", help="of the long file")
    parser.add_argument("--rows", type=int, default=400000)
    parser.add_argument("--ram", default="256M", help="of the volume")
    parser.add_argument("--write-back", action="store_true", help="mounts the volume with this")
    parser.add_argument("--no-xattrs", action="store_true", help="mounts the volume with this")
    parser.add_argument("--work", default=",".join(name for name, _ in WORKS), help="only works with these beginnings")
    parser.add_argument("--update", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def show(arguments, rounds):
    """Prints a line for each work: the ratio that is wanted is of wall time."""
    print(f"{'':16}{'wall s':^34}{'processor s':^26}")
    print(f"{'work':16}{'aquifer':>9}{'ext4':>8}{'ratio':>8}{'wanted':>9}{'aquifer':>10}{'ext4':>8}{'ratio':>8}")
    for name, wanted in WORKS:
        if name not in rounds["ext4"][0]:
            continue
        line = f"{name:16}"
        for kind in 0, 1:
            volume, ext4 = (statistics.median(each[name][kind] for each in rounds[side]) for side in ("aquifer", "ext4"))
            line += f"{volume:{9 + kind}.2f}{ext4:8.2f}{volume / max(ext4, 0.01):8.2f}"
            if kind == 0:
                line += f"{wanted:9.2f}" if wanted else f"{'-':>9}"
        print(line)
    print(f"{arguments.files} files, {arguments.bytes} MiB, {arguments.rows} rows, {arguments.rounds} rounds, load {os.getloadavg()[0]:.1f}")


def main():
    arguments = parse()
    if arguments.update:
        return update(arguments.update[0], int(arguments.update[1]))
    lacks = missing()
    if lacks:
        print(f"SKIP mount speed: {lacks}")
        return
    mib = arguments.bytes * 3 + arguments.files // 20 + 1024
    with tempfile.TemporaryDirectory(dir=os.environ.get("AQUIFER_SPEED_DIR") or os.environ.get("TMPDIR") or "/var/tmp") as work:
        archive = f"{work}/archive.tar"
        make_archive(archive, arguments.files, arguments.seed)
        options = ["--ram", arguments.ram] + ["--write-back"] * arguments.write_back + ["--no-xattrs"] * arguments.no_xattrs
        sides = [Volume(work, mib, options), Ext4(work, mib)]
        rounds = {side.name: [] for side in sides}
        try:
            for number in range(arguments.rounds):
                for side in sides if number % 2 == 0 else sides[::-1]:
                    rounds[side.name].append(Round(side, arguments, archive).run())
        finally:
            for side in sides:
                subprocess.run(("umount", "-l", side.folder), check=False, stderr=subprocess.DEVNULL)
                side.end()
        show(arguments, rounds)


if __name__ == "__main__":
    main()
