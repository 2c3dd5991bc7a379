#!/usr/bin/env python3
"""Runs the programs of programs.toml natively and under `aquifer run` with less RAM than they need, and compares.

Each entry runs once natively, which shows the memory that it needs, and then with 1/N of that for each N of
--budgets. Outputs must be the same, and no run may hang. With --swap (root) the program also runs natively in a
memory cgroup with kernel swap, in the RAM that all processes of the managed run together had for anonymous memory and
page tables: pages of files are in the page cache since the native run, and count in neither. With --zswap it does so
with zswap in front of swap, whose pool is part of that RAM; without, zswap is off. The kernel reads as many neighbours
as vm.page-cluster of the machine says.

Example: AQUIFER=build/bin/aquifer tests/corpus/run.py --budgets 2,4 --out /tmp/corpus sort pandas
         tests/corpus/run.py --swap --zswap --runs 5 --records runs.jsonl sort
"""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import data
from processes import Limits, run
from records import Records
from swap import BEFORE, Swap, page_cluster, put_zswap_back, remove_group, why_no_swap, why_no_zswap
from tools import Missing, Tools, version_of

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]
BUILD = TREE / "build" / "corpus"
MIB = 1 << 20
LEAST_MIB = 32
# Flash of a run, at least: allocators reserve a GiB at a time.
FLASH_MIB_MIN = 2560
THREADS = 2
# A run that takes less than this part of the memory that it takes natively has managed memory.
MANAGED_PART = 0.8
# How often a run is tried that is no comparison.
VOID_RUNS = 3


@dataclass
class Managed:
    """One run under `aquifer run`."""

    divisor: int
    budget_mib: int
    outcome: str
    why: str
    seconds: float
    peak_mib: int
    block_mib: int
    exceeded: bool
    # Of swap and zswap: seconds, or why there are none.
    peers: dict = field(default_factory=dict)


@dataclass
class Result:
    """What is known of an entry in the end."""

    name: str
    make: str
    version: str = ""
    seconds: float = 0.0
    need_mib: int = 0
    skipped: str = ""
    failures: list[str] = field(default_factory=list)
    runs: list[Managed] = field(default_factory=list)


def progress(text):
    print(text, file=sys.stderr, flush=True)


class Entry:
    """A row of the table with its directories."""

    def __init__(self, row, options, tools):
        self.row, self.options, self.tools = row, options, tools
        self.name = row["name"]
        self.made = options.work / self.name
        self.environment = dict(os.environ, LC_ALL="C.UTF-8", TZ="UTC", SOURCE_DATE_EPOCH="0", **row.get("env", {}))
        self.places = {}

    def prepare(self):
        """Installs the program and makes its data; raises Missing."""
        self.made.mkdir(parents=True)
        self.tools.provide(self.row, self.environment)
        self.places = {"made": self.made, "here": HERE, "threads": THREADS, "python": self.tools.python(self.row)}
        if "data" in self.row:
            self.places["data"] = data.make(self.row["data"], BUILD / "data")
        if "script" in self.row:
            self.places["script"] = self.made / f"script{self.row.get('suffix', '')}"
            self.places["script"].write_text(self.row["script"])
        if "setup" in self.row:
            command = self.filled("{run}" + self.row["setup"], "")
            setup = run(command, self.made, self.environment, Limits(300), self.made / "setup")
            if setup.status != 0:
                raise Missing(f"the data could not be made: {setup.last_error()}")

    def filled(self, command, launcher):
        """The command with its placeholders replaced, behind `launcher`."""
        command = command if "{run}" in command else "exec {run} " + command.lstrip()
        for name, value in {**self.places, "run": launcher}.items():
            command = command.replace("{" + name + "}", str(value))
        return command

    def run(self, label, launcher, limits, group=None):
        """One run in a directory and a control group of its own, where that can be; its output is digested before the directory is removed."""
        if group is None and self.options.counts:
            with Swap(self.made, None, 0) as group:
                return self.run(label, launcher, limits, group)
        prefix = ""
        if group:
            limits.tick, prefix = group.refresh, group.prefix()
        work = self.made / label
        work.mkdir()
        self.places["work"] = work
        command = prefix + self.filled(self.row["run"], launcher)
        ended = run(command, work, self.environment, limits, self.options.out / f"{self.name}.{label}")
        if group:
            ended.total_mib = max(ended.peak_mib, group.anonymous_most // MIB + ended.tables_mib)
        ended.digest(work, self.row.get("files", []), self.row.get("drop"))
        remove(work)
        return ended

    def launcher(self, budget_mib, need_mib):
        """The `aquifer run` command up to the program."""
        words = [self.options.aquifer, "run", "--ram", f"{budget_mib}M", "--flash", self.made, "--flash-size"]
        words += [f"{max(FLASH_MIB_MIN, 6 * need_mib)}M", "--report-json", self.made / "report", *self.row.get("options", [])]
        return " ".join(map(str, words)) + " --"

    def reports(self, label):
        """The reports of the last managed run's processes, which are kept in one file beside its output."""
        found = []
        for path in self.made.glob("report*"):
            try:
                found.append(json.loads(path.read_text()))
            except ValueError:
                progress(f"{self.name}: {path.name} is no JSON")
            path.unlink()
        (self.options.out / f"{self.name}.{label}.json").write_text(json.dumps(found, indent=1))
        return found


def remove(path):
    """Removes a directory with all that is in it, whatever its permissions."""
    for folder, _, _ in os.walk(path):
        os.chmod(folder, 0o700)
    for folder, folders, files in os.walk(path, topdown=False):
        for name in files:
            os.unlink(os.path.join(folder, name))
        for name in folders:
            inner = os.path.join(folder, name)
            os.unlink(inner) if os.path.islink(inner) else os.rmdir(inner)
    os.rmdir(path)


def judge(native, managed):
    """The outcome of a managed run in a word, and its reason."""
    if managed.timed_out:
        return managed.timed_out, f"ended after {managed.seconds:.0f} s"
    if managed.status < 0 or managed.status > 128:
        number = -managed.status if managed.status < 0 else managed.status - 128
        return "crashed", f"{signal_name(number)}: {managed.last_error()}"
    if managed.status != native.status:
        refusal = managed.status in (125, 126, 127) and managed.first_error().startswith("aquifer: ") and not managed.output_bytes
        return "refused" if refusal else "failed", f"status {managed.status}: {managed.last_error()}"
    for name, digest in native.digests.items():
        if managed.digests.get(name) != digest:
            found = managed.digests.get(name, "missing")
            return "wrong", f"SHA-256 of {name} is {found[:16]}, {digest[:16]} natively; {managed.last_error()}"
    return "right", ""


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def managed_run(entry, result, native, divisor, budget_mib, number):
    """Runs an entry with 1/`divisor` of its memory, and its peers in the same RAM."""
    options = entry.options
    label = f"{divisor}" + (f".{number}" if number else "")
    least = 300 if options.short else 60
    seconds = max(least, 60 * native.seconds) * entry.row.get("patience", 1)
    limits = Limits(options.timeout or seconds, hang=options.out / f"{entry.name}.{label}.hang")
    progress(f"{entry.name}: 1/{divisor}, {budget_mib} MiB")
    ended = entry.run(label, entry.launcher(budget_mib, result.need_mib), limits)
    outcome, why = judge(native, ended)
    if outcome == "right":
        ended.forget_output()
    reports = entry.reports(label)
    block_mib = max((report["block_bytes_max"] for report in reports), default=0) // MIB
    # Processes that end by a signal or `_exit` have no report.
    exceeded = any(report["exceeded_ram"] for report in reports) or ended.peak_mib < result.need_mib * MANAGED_PART
    made = Managed(divisor, budget_mib, outcome, why, ended.seconds, ended.peak_mib, block_mib, exceeded)
    run_of = {"divisor": divisor, "ram_mib": budget_mib, "fits": not exceeded}
    options.records.keep(result, "managed", number, ended, outcome, why, **run_of)
    ram_mib = max(ended.total_mib if outcome == "right" or ended.timed_out else budget_mib, LEAST_MIB)
    for peer in options.peers if outcome != "refused" else []:
        made.peers[peer] = peer_run(entry, result, native, peer, divisor, ram_mib, number)
    return made


def peer_run(entry, result, native, peer, divisor, ram_mib, number):
    """Runs an entry natively with kernel swap in the RAM that its managed run had; seconds, or why there are none."""
    options = entry.options
    if why := options.lacks[peer]:
        options.records.keep(result, peer, number, None, "skipped", why, divisor=divisor)
        return why
    progress(f"{entry.name}: 1/{divisor}, {peer}, {ram_mib} MiB")
    for part in range(VOID_RUNS):
        label = ".".join(map(str, [divisor, *([number] if number else []), peer, *([part] if part else [])]))
        ended, outcome, why, of_zswap = swap_run(entry, native, result.need_mib, peer, ram_mib, label)
        if outcome != "void":
            break
    options.records.keep(result, peer, number, ended, outcome, why, divisor=divisor, ram_mib=ram_mib, **of_zswap)
    return ended.seconds if outcome == "right" else f"{outcome}: {why}"


def swap_run(entry, native, need_mib, peer, ram_mib, label):
    """One run with kernel swap, its outcome, the reason, and the figures of zswap."""
    with Swap(entry.made, ram_mib, 3 * max(need_mib, LEAST_MIB), peer == "zswap") as swap:
        ended = entry.run(label, "", Limits(entry.options.timeout or max(60, 60 * native.seconds)), swap)
        killed, void = swap.killed(), swap.why_void()
        of_zswap = {"pool_mib": swap.pool_mib(), "total_mib": swap.together_mib()} if peer == "zswap" else {}
    outcome, why = judge(native, ended)
    if outcome == "right":
        ended.forget_output()
    if killed and outcome != "right":
        outcome, why = "killed", f"no memory in a group of {ram_mib} MiB, after {ended.seconds:.0f} s"
    elif void and outcome != "wrong":
        outcome, why = "void", f"{void}, in {ram_mib} MiB"
    return ended, outcome, why, of_zswap


def failure_of(made, expect):
    """Why a managed run is no success, or nothing."""
    if expect == "refused":
        return "" if made.outcome == "refused" else f"{made.outcome} instead of refused"
    return "" if made.outcome == "right" else f"{made.outcome}, {made.why}"


def budgets_of(row, need_mib, divisors):
    """Divisors with the MiB that each leaves, or with why it is not tried."""
    done = set()
    for divisor in divisors:
        budget_mib = max(LEAST_MIB, need_mib // divisor)
        if divisor > row.get("most", divisor):
            yield divisor, f"nearly every access would wait with less than 1/{row['most']} of its memory"
        elif budget_mib in done or (budget_mib >= need_mib and done):
            yield divisor, f"{LEAST_MIB} MiB are the least, and were tried"
        else:
            yield divisor, budget_mib
        done.add(budget_mib)


def native_run(entry, result, number):
    """Runs an entry without a limit; all runs must agree."""
    progress(f"{entry.name}: native")
    native = entry.run(f"native.{number}" if number else "native", "", Limits(300))
    if native.timed_out or native.status:
        raise Missing(f"it fails natively, status {native.status}: {native.last_error()}")
    if not number:
        result.seconds, result.need_mib = native.seconds, native.peak_mib
    return native


def all_runs(entry, result):
    """Runs an entry natively and in all its budgets, as often as is asked for, in turns."""
    options, row = entry.options, entry.row
    expected = row.get("expect", "managed")
    for number in range(options.runs):
        if number == 0 or options.records:
            again = native_run(entry, result, number)
            native = again if number == 0 else native
            options.records.keep(result, "native", number, again, *judge(native, again))
        for divisor, budget_mib in budgets_of(row, result.need_mib, options.budgets):
            if isinstance(budget_mib, str):
                options.records.keep(result, "managed", number, None, "skipped", budget_mib, divisor=divisor)
                continue
            made = managed_run(entry, result, native, divisor, budget_mib, number)
            result.runs.append(made)
            if why := failure_of(made, expected):
                result.failures.append(f"1/{divisor}, {made.budget_mib} MiB: {why}")
    if expected == "managed" and result.runs and not result.failures and not any(made.exceeded for made in result.runs):
        result.failures.append("its memory is not managed")
    if not result.failures:
        native.forget_output()


def one_entry(row, options, tools):
    """Makes what an entry needs, and runs it."""
    result = Result(row["name"], row["make"])
    entry = Entry(row, options, tools)
    try:
        entry.prepare()
        result.version = version_of(row, entry.environment, entry.filled)
        all_runs(entry, result)
    except Missing as missing:
        result.skipped = str(missing)
        options.records.keep(result, "native", 0, None, "skipped", result.skipped)
    finally:
        remove(entry.made)
    return result


def line_of(result, row):
    """The result line of an entry."""
    if result.skipped:
        return f"skip corpus {result.name}: {result.skipped}"
    if result.failures:
        return f"FAIL corpus {result.name}: " + "; ".join(result.failures)
    parts = [f"{result.need_mib} MiB, {result.seconds:.1f} s"]
    for made in result.runs:
        what = made.outcome if row.get("expect", "managed") != "unmanaged" else f"{made.outcome}, not managed"
        parts.append(f"1/{made.divisor} {what} in {made.seconds:.1f} s, {made.peak_mib} MiB of {made.budget_mib}")
    expected = row.get("need_mib", 0)
    if expected and not expected / 2 <= result.need_mib <= expected * 2:
        parts.append(f"the table says {expected} MiB")
    return f"ok corpus {result.name}: " + "; ".join(parts)


def cell(result, divisor):
    """What the table says of an entry's runs in 1/`divisor` of its memory."""
    runs = [made for made in result.runs if made.divisor == divisor]
    if not runs:
        return "-"
    worst = next((made for made in runs if made.outcome != "right"), max(runs, key=lambda made: made.seconds))
    text = "right" if worst.exceeded or worst.outcome != "right" else "right, fits"
    text = text if worst.outcome == "right" else f"**{worst.outcome}**"
    text += f", x {worst.seconds / max(result.seconds, 0.01):.1f}, {worst.peak_mib / worst.budget_mib:.2f}"
    for peer, seconds in worst.peers.items():
        text += f"; {peer} " + (seconds if isinstance(seconds, str) else f"{seconds:.1f} s, {seconds / worst.seconds:.2f}")
    return text


def table(results, budgets):
    """All results as Markdown."""
    heads = ["program", "make", "version", "native s", "need MiB", *(f"1/{divisor}" for divisor in budgets)]
    rows = [heads, ["---"] * len(heads)]
    for result in results:
        if result.skipped:
            rows.append([result.name, result.make, f"skipped: {result.skipped}", *["-"] * (len(heads) - 3)])
            continue
        cells = [cell(result, divisor) for divisor in budgets]
        rows.append([result.name, result.make, result.version, f"{result.seconds:.1f}", str(result.need_mib), *cells])
    lines = ["| " + " | ".join(text.replace("|", "/") for text in row) + " |" for row in rows]
    note = "Of each run: outcome, time / native time, peak of anonymous memory and page tables / budget"
    return "\n".join([*lines, "", note + f"; with swap (vm.page-cluster {page_cluster()}): its seconds, and its time / Aquifer's.", ""])


def why_no_run(options):
    """Why programs cannot have managed memory here, or nothing."""
    command = f"{options.aquifer} run --ram {LEAST_MIB}M --flash {options.work} --flash-size 1G -- true"
    ended = run(command, options.work, os.environ, Limits(60), options.out / "true")
    return "" if ended.status == 0 else ended.first_error() or f"status {ended.status}"


def clean_after_killed(where):
    """Removes what runs left that were killed: their directories, swap files in them that are on still, and their groups; zswap is as it was."""
    for folder in where.glob("work.*"):
        number = folder.suffix[1:]
        if not number.isdigit() or Path("/proc", number).exists():
            continue
        for line in Path("/proc/swaps").read_text().splitlines():
            if line.startswith(f"{folder}/"):
                subprocess.run(["swapoff", line.split()[0]], check=False)
        for before in folder.glob(f"*/{BEFORE}"):
            put_zswap_back(before.parent)
        remove_group(number)
        remove(folder)


def arguments(names):
    description, example = __doc__.split("\n\nExample: ")
    parser = argparse.ArgumentParser(
        description=description,
        epilog=f"Example: {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--short", action="store_true", help="only a few quick programs of different makes")
    parser.add_argument("--budgets", help="divisors of the memory that is needed [2,4,8; with --short 2]")
    parser.add_argument("--swap", action="store_true", help="compare with kernel swap in the same RAM; needs root")
    parser.add_argument("--zswap", action="store_true", help="compare with zswap in front of kernel swap in the same RAM; needs root")
    parser.add_argument("--runs", type=int, default=1, help="runs for each budget, and with --records natively [1]")
    parser.add_argument(
        "--records", metavar="FILE", help="append a JSON line for each run; '-': print these alone, all else to standard error"
    )
    parser.add_argument("--dir", type=Path, default=BUILD, help="where flash and swap files are for the time [build/corpus]")
    parser.add_argument("--out", type=Path, default=BUILD / "out", help="directory of the table [build/corpus/out]")
    parser.add_argument("--timeout", type=float, help="seconds of a managed run [60 x native x patience, 60 at least, 300 with --short]")
    parser.add_argument("names", nargs="*", metavar="NAME", help="entries of programs.toml [all]")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in names]
    if unknown:
        parser.error(f"there is no entry {unknown[0]}; --list prints the names")
    try:
        budgets = options.budgets or ("2" if options.short else "2,4,8")
        options.budgets = [int(word) for word in budgets.split(",")]
    except ValueError:
        parser.error(f"--budgets takes numbers like 2,4,8, not {budgets}")
    if min(options.budgets) < 1 or options.runs < 1:
        parser.error("--budgets and --runs start at 1")
    return parser, options


def end(*_):
    """Ends by a signal, after cleaning up, which another signal does not disturb."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def main():
    rows = tomllib.loads((HERE / "programs.toml").read_text())["program"]
    parser, options = arguments([row["name"] for row in rows])
    if options.names:
        rows = [row for row in rows if row["name"] in options.names]
    elif options.short:
        rows = [row for row in rows if row.get("short")]
    if options.list:
        print("\n".join(row["name"] for row in rows))
        return 0
    options.aquifer = Path(os.environ.get("AQUIFER", TREE / "build" / "bin" / "aquifer")).resolve()
    if not os.access(options.aquifer, os.X_OK):
        parser.error(f"there is no {options.aquifer}; 'make lib' builds it, or name another: AQUIFER=path")
    options.lacks = {"swap": why_no_swap(), "zswap": why_no_zswap()}
    options.peers = [peer for peer in options.lacks if getattr(options, peer)]
    # The kernel counts what processes share once.
    options.counts = not options.lacks["swap"]
    for peer in options.peers:
        # Records say why.
        if options.lacks[peer] and not options.records:
            parser.error(f"--{peer} is not possible: {options.lacks[peer]}")
    signal.signal(signal.SIGTERM, end)
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    options.work = options.dir.resolve() / f"work.{os.getpid()}"
    clean_after_killed(options.dir.resolve())
    options.work.mkdir(parents=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    options.records = Records(options.records)
    tools, results = Tools(BUILD), []
    try:
        if why := why_no_run(options):
            print(f"skip corpus: {why}")
            for row in rows:
                options.records.keep(Result(row["name"], row["make"]), "managed", 0, None, "skipped", why)
            return 0
        for row in rows:
            results.append(one_entry(row, options, tools))
            print(re.sub(r"\s+", " ", line_of(results[-1], row)), flush=True)
            (options.out / "table.md").write_text(table(results, options.budgets))
    finally:
        remove(options.work)
    print("\n" + table(results, options.budgets))
    failed, skipped = sum(bool(result.failures) for result in results), sum(bool(r.skipped) for r in results)
    print(f"{len(results)} programs, {failed} failed, {skipped} skipped")
    # Who reads records knows of failures, and from the status that they are complete.
    return 1 if failed and not options.records.are_all else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
