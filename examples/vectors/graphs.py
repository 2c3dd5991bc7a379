"""Graph indexes of hnswlib and USearch in less RAM than they need, unchanged: by `aquifer run`, by swap, and by USearch's mapped file.

Each run is a process of its own, in a memory cgroup of its own where this machine allows that (root). The native run of an index says how
much RAM it needs; all others have `--fraction` of that. They build the index of the same vectors in one thread, and then ask it one query
at a time. What they find must be what the native run found, byte by byte; otherwise the status is 1.

  native         all RAM that it takes
  aquifer        aquifer run; its --ram is the limit less an eighth, 16 MiB at least, for page tables and the kernel
  swap           kernel swap to a file (root); read-around as the machine has it, or as --page-cluster says
  view           USearch's file of the index, mapped (`view=True`): the page cache brings pages. Nothing is built
  view-random    the same, and the kernel is told that it is read in no order (MADV_RANDOM)

examples:
  graphs.py --count 60000 --plot graphs.png             some minutes
  graphs.py --count 60000 --only usearch                one index
  graphs.py --count 60000 --only aquifer,hnswlib/swap   native runs come along, for what is compared with them
  graphs.py --file sift_base.fvecs --fraction 0.25 --load
  graphs.py --from runs.jsonl --plot graphs.svg         draws again what --records has kept
"""
import argparse
import importlib.util
import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import report
import runs

MEMORIES = {"hnswlib": ["native", "aquifer", "swap"], "usearch": ["native", "aquifer", "swap", "view", "view-random"]}


def chosen(options):
    """Pairs of index and memory that are asked for and possible here; says what is left out and why."""
    wanted = options.only.split(",") if options.only else []
    known = {name for index, memories in MEMORIES.items() for memory in memories for name in (index, memory, f"{index}/{memory}")}
    if unknown := [name for name in wanted if name not in known]:
        raise SystemExit(f"graphs.py: --only names {', '.join(unknown)}; it may be an index, a memory, or both as hnswlib/swap")
    why_not = {"swap": runs.swap.why_no_swap()}
    if not shutil.which(options.aquifer):
        why_not["aquifer"] = f"{options.aquifer} is missing; build it with 'make lib', or say where it is with --aquifer"
    if options.no_groups:
        why_not["view"] = why_not["view-random"] = f"nothing limits the page cache without a memory cgroup: {options.no_groups}"
    pairs = []
    for index, memories in MEMORIES.items():
        asked = [one for one in memories if not wanted or {index, one, f"{index}/{one}"} & set(wanted)]
        if not asked:
            continue
        if not importlib.util.find_spec(index):
            runs.say(f"{index} is left out: pip install {index}")
            continue
        for memory in asked:
            if why := why_not.get(memory):
                runs.say(f"{index}, {memory} is left out: {why}")
        pairs += [(index, one) for one in memories if one == "native" or (one in asked and not why_not.get(one))]
    return pairs


def parsed(arguments):
    here = os.environ.get("AQUIFER") or str(runs.ROOT / "build" / "bin" / "aquifer")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, help="vectors [100000, or all of --file]")
    parser.add_argument("--dims", type=int, default=128, help="numbers of a vector [128]")
    parser.add_argument("--file", help="vectors of a .npy or .fvecs file in place of a mixture of Gaussians; its last rows are the queries")
    parser.add_argument("--order", choices=("given", "near"), default="given", help="near: vectors near each other are added one after another")
    parser.add_argument("--queries", type=int, default=1000, help="queries that are measured [1000]")
    parser.add_argument("--warm", type=int, default=200, help="queries before that [200]")
    parser.add_argument("--seconds", type=float, default=60, help="after which no more queries are asked, of either kind [60]")
    parser.add_argument("--k", type=int, default=10, help="neighbours of a query [10]")
    parser.add_argument("--links", type=int, default=16, help="links of a vector in the graph (M, connectivity) [16]")
    parser.add_argument("--build-width", type=int, default=100, help="candidates while it is built (ef_construction, expansion_add) [100]")
    parser.add_argument("--width", type=int, default=64, help="candidates of a query (ef, expansion_search) [64]")
    parser.add_argument("--fraction", type=float, default=0.5, help="RAM limit as a fraction of what the native run takes [0.5]")
    parser.add_argument("--ram", help="RAM limit as a size in place of --fraction")
    parser.add_argument("--load", action="store_true", help="limited runs load the index that the native run has saved, and build none")
    parser.add_argument("--only", help="indexes, memories or pairs of them as usearch/view, with commas between")
    parser.add_argument("--runs", type=int, default=1, help="medians of so many; all memories take turns [1]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page-cluster", type=int, help="vm.page-cluster during runs with swap: 0 reads no neighbours [as it is]")
    parser.add_argument("--patience", type=float, default=7200, help="seconds after which a run is ended and counts as failed [7200]")
    parser.add_argument("--dir", default=os.environ.get("TMPDIR", "/var/tmp"), help="a folder on the disk for flash and swap [$TMPDIR, or /var/tmp]")
    parser.add_argument("--aquifer", default=here, help="the aquifer command [$AQUIFER, or build/bin/aquifer]")
    parser.add_argument("--records", help="append a JSON line for each sample to this file")
    parser.add_argument("--plot", help="draw the result to this PNG or SVG file (needs matplotlib)")
    parser.add_argument("--from", dest="kept", help="make table and plot of such a file, and measure nothing")
    options = parser.parse_args(arguments)
    options.count = options.count or (None if options.file else 100_000)
    if not 0 < options.fraction <= 1:
        parser.error("--fraction is more than 0 and at most 1")
    options.no_groups = runs.why_no_groups()
    return options


def measure(options):
    """All runs; their samples."""
    pairs = chosen(options)
    if not pairs:
        raise SystemExit("graphs.py: nothing is left to measure")
    if options.no_groups:
        runs.say(f"no memory cgroups: {options.no_groups}. --ram asks aquifer to keep to it, and nothing limits the whole process")
    work = Path(tempfile.mkdtemp(prefix="vectors.", dir=options.dir))
    try:
        bench = runs.Bench(options, work)
        for number in range(1, options.runs + 1):
            for index, memory in pairs:
                if memory != "native" and index not in bench.needs:
                    continue
                sample = bench.run(index, memory, number)
                if options.records:
                    with open(options.records, "a") as file:
                        print(json.dumps(sample), file=file)
        return bench.samples
    finally:
        shutil.rmtree(work, ignore_errors=True)


ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end(number, _):
    """Ends this process by way of all that is to be put back; no further signal interrupts that, nor what it calls."""
    for each in ENDS:
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main(arguments=None):
    options = parsed(arguments)
    for number in ENDS:
        signal.signal(number, end)
    if options.kept:
        samples = [json.loads(line) for line in Path(options.kept).read_text().splitlines()]
    else:
        samples = measure(options)
    print("\n".join(report.table(samples)))
    if options.plot:
        report.plot(samples, options.plot)
    wrong = [sample for sample in samples if not sample["failure"] and not sample["is_same"]]
    for sample in wrong:
        runs.say(f"WRONG DATA: {sample['index']}, {sample['memory']} found other vectors than the native run")
    return 1 if wrong or any(sample["failure"] for sample in samples) else 0


if __name__ == "__main__":
    sys.exit(main())
