"""Runs a command, watches the memory of all its processes, and describes those that hang."""
import ctypes
import hashlib
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

SAMPLE_SECONDS = 0.02
KIB_PER_MIB = 1024
PR_SET_CHILD_SUBREAPER = 36


@dataclass
class Limits:
    """When a run is ended, and what is done meanwhile."""

    seconds: float
    hang: Path | None = None
    tick: Callable[[], None] = lambda: None


@dataclass
class Ended:
    """A run that is over. `timed_out` is empty, "hang" or "slow".

    `peak_mib` is of the largest process, `total_mib` of all that there were at a time, `tables_mib` of their page tables; what they share counts for each.
    """

    status: int
    seconds: float
    cpu_seconds: float
    peak_mib: int
    total_mib: int
    tables_mib: int
    timed_out: str
    streams: Path
    digests: dict = field(default_factory=dict)
    output_bytes: int = 0

    def error_lines(self):
        text = self.streams.with_name(self.streams.name + ".err").read_text(errors="replace")
        return [line for line in text.splitlines() if line.strip()] or [""]

    def first_error(self):
        return self.error_lines()[0]

    def last_error(self):
        return " / ".join(self.error_lines()[-2:])[-300:]

    def forget_output(self):
        """Removes standard output, which is of no use once it was compared."""
        self.streams.with_name(self.streams.name + ".out").unlink(missing_ok=True)

    def digest(self, work, files, drop):
        """Takes digests of standard output, without lines that match `drop`, and of `files` in `work`."""
        output = self.streams.with_name(self.streams.name + ".out")
        content = output.read_bytes()
        self.output_bytes = len(content)
        if drop:
            pattern = re.compile(drop.encode())
            content = b"\n".join(line for line in content.split(b"\n") if not pattern.search(line))
        self.digests["standard output"] = hashlib.sha256(content).hexdigest()
        for name in files:
            for path in sorted(work.glob(name)) or [work / name]:
                self.digests[str(path.relative_to(work))] = digest_of(path)


def digest_of(path):
    if not path.is_file():
        return "missing"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def adopt_orphans():
    """Makes this process the parent of its descendants whose parents end, so that none is lost."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants():
    """All processes below this one."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parent = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found, left = [], [os.getpid()]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


class Memory:
    """The peak of one process, from samples of /proc/PID/status."""

    def __init__(self):
        self.anonymous = self.tables = self.files = self.peak = 0

    def sample(self, status):
        """Looks at a process; KiB of anonymous memory and of page tables that it has now."""
        kib = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB", status, re.M)}
        self.anonymous = max(self.anonymous, kib.get("RssAnon", 0) + kib.get("RssShmem", 0))
        self.tables = max(self.tables, kib.get("VmPTE", 0))
        self.files = max(self.files, kib.get("RssFile", 0))
        self.peak = max(self.peak, kib.get("VmHWM", 0))
        return kib.get("RssAnon", 0) + kib.get("RssShmem", 0), kib.get("VmPTE", 0)

    def kib(self):
        """Anonymous memory and page tables; a peak between two samples counts too."""
        return max(self.anonymous, self.peak - self.files) + self.tables


class Watch:
    """The memory of all processes of a run."""

    def __init__(self):
        self.memories, self.most, self.most_tables = {}, 0, 0

    def sample(self):
        now = tables = 0
        for pid in descendants():
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            anonymous, own_tables = self.memories.setdefault(pid, Memory()).sample(status)
            now, tables = now + anonymous + own_tables, tables + own_tables
        self.most, self.most_tables = max(self.most, now), max(self.most_tables, tables)

    def peak_mib(self):
        return max((memory.kib() for memory in self.memories.values()), default=0) // KIB_PER_MIB

    def total_mib(self):
        """Of all processes; that of the largest one at least, whose peaks between two samples are known."""
        return max(self.most // KIB_PER_MIB, self.peak_mib())


def run(command, work, environment, limits, streams):
    """Runs a shell command in `work` until it ends or `limits` are reached; its output is in `streams`.out and .err."""
    watch, timed_out, cpu_before = Watch(), "", cpu_seconds()
    with open(f"{streams}.out", "wb") as output, open(f"{streams}.err", "wb") as errors:
        begin = time.monotonic()
        child = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            while child.poll() is None:
                watch.sample()
                limits.tick()
                if time.monotonic() - begin > limits.seconds:
                    timed_out = "slow" if is_busy() else "hang"
                    if limits.hang:
                        limits.hang.write_text(describe(command))
                    break
                time.sleep(SAMPLE_SECONDS)
            seconds = time.monotonic() - begin
        finally:
            end_all(child)
    used = cpu_seconds() - cpu_before
    memory = watch.peak_mib(), watch.total_mib(), watch.most_tables // KIB_PER_MIB
    return Ended(child.returncode, seconds, used, *memory, timed_out, Path(streams))


def cpu_seconds():
    """Processor time of all descendants that have ended, of programs and of the kernel for them."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def end_all(child):
    """Kills what the run has left, by process group and one by one."""
    while True:
        left = [pid for pid in descendants() if state_of(pid) != "Z"]
        if not left:
            break
        if child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(SAMPLE_SECONDS)
    child.wait()
    reap()


def reap():
    """Takes leave of adopted processes that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def state_of(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def ticks():
    """Processor time of all processes of a run."""
    total = 0
    for pid in descendants():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total


def is_busy():
    """Whether the run still uses a processor for more than a twentieth of the time."""
    before = ticks()
    time.sleep(2)
    return ticks() - before > 2 * os.sysconf("SC_CLK_TCK") // 20


def describe(command):
    """What the threads of the run are doing."""
    text = f"{command}\n"
    for pid in descendants():
        text += f"\nprocess {pid}\n"
        for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
            text += f"  {task.name} " + " | ".join(line_of(task / name) for name in ("comm", "wchan", "syscall")) + "\n"
        text += backtraces(pid)
    return text


def line_of(path):
    try:
        return path.read_text().strip()
    except OSError as error:
        return error.strerror or "?"


def backtraces(pid):
    if not shutil.which("gdb"):
        return "  no backtraces: gdb is missing\n"
    command = ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60).stdout
    except subprocess.TimeoutExpired:
        return "  no backtraces: gdb does not end\n"


adopt_orphans()
