#!/usr/bin/env python3
"""Programs of programs.toml in a memory cgroup of half of what they need, without swap: plain, with a peer that needs no root, and under `aquifer run`.

The peer is bigmaac (github.com/misko/bigmaac), which maps a file for each block of malloc from 1 MiB on. The
limit is the same for all; `aquifer run` finds it by itself (--ram auto). Needs root for the cgroup alone.

Example: AQUIFER=build/bin/aquifer tests/corpus/peers.py --bigmaac ../bigmaac/bigmaac.so python sort lua
"""
import argparse
import os
import sys
import tomllib
from pathlib import Path

import run as corpus
from processes import Limits
from swap import Swap, hierarchy
from tools import Missing, Tools

LEAST_MIB = 48
SECONDS_LEAST = 60


def runs_of(entry, native, need_mib, options):
    """Label and launcher of each contestant."""
    flash_mib = max(corpus.FLASH_MIB_MIN, 6 * need_mib)
    yield "plain", ""
    if options.bigmaac:
        sizes = f"BIGMAAC_MIN_BIGMAAC_SIZE={corpus.MIB}"
        yield "bigmaac", f"env {sizes} BIGMAAC_TEMPLATE={entry.made}/bigmaac.XXXXXXXX LD_PRELOAD={options.bigmaac.resolve()}"
    yield "aquifer", f"{options.aquifer} run --ram auto --flash {entry.made} --flash-size {flash_mib}M --"


def row_of(row, options, tools):
    """A line of the table."""
    entry = corpus.Entry(row, options, tools)
    try:
        entry.prepare()
        native = entry.run("native", "", Limits(300))
        limit_mib = max(LEAST_MIB, native.peak_mib // 2)
        cells = [row["name"], f"{native.seconds:.1f}", str(native.peak_mib), str(limit_mib)]
        for label, launcher in runs_of(entry, native, native.peak_mib, options):
            with Swap(entry.made, limit_mib, 0) as group:
                ended = entry.run(label, launcher, Limits(max(SECONDS_LEAST, 60 * native.seconds)), group)
            outcome, why = corpus.judge(native, ended)
            corpus.progress(f"{row['name']}: {label}: {outcome} in {ended.seconds:.1f} s {why}")
            cells.append(f"{outcome}, x {ended.seconds / max(native.seconds, 0.01):.1f}" if outcome == "right" else f"**{outcome}**")
        return "| " + " | ".join(cells) + " |"
    except Missing as missing:
        return f"| {row['name']} | skipped: {missing} |"
    finally:
        corpus.remove(entry.made)


def main():
    rows = tomllib.loads((corpus.HERE / "programs.toml").read_text())["program"]
    description, example = __doc__.split("\n\nExample: ")
    parser = argparse.ArgumentParser(description=description, epilog=f"Example: {example}")
    parser.add_argument("--bigmaac", type=Path, help="its library")
    parser.add_argument("--out", type=Path, default=corpus.BUILD / "peers", help="directory of outputs")
    parser.add_argument("names", nargs="+", metavar="NAME", help="entries of programs.toml")
    options = parser.parse_args()
    if os.geteuid() != 0 or not hierarchy():
        parser.error("a memory cgroup cannot be made here: it needs root and a memory controller")
    if options.bigmaac and not options.bigmaac.is_file():
        parser.error(f"there is no {options.bigmaac}; build it as its manual says: make bigmaac.so")
    options.counts = False
    options.aquifer = Path(os.environ.get("AQUIFER", corpus.TREE / "build" / "bin" / "aquifer")).resolve()
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    options.work = corpus.BUILD / f"work.{os.getpid()}"
    options.work.mkdir(parents=True)
    heads = ["program", "native s", "need MiB", "limit MiB", "plain", *(["bigmaac"] if options.bigmaac else []), "aquifer run"]
    lines = ["| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads))]
    try:
        tools = Tools(corpus.BUILD)
        lines += [row_of(row, options, tools) for row in rows if row["name"] in options.names]
    finally:
        corpus.remove(options.work)
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
