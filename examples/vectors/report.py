"""The table and the picture of measured runs of `graphs.py`: medians of the samples of each index and memory."""
import statistics

COLOURS = {"native": "#828282", "aquifer": "#009E73", "swap": "#E69F00", "view": "#56B4E9", "view-random": "#0072B2"}
# Title, field of a sample, how it is written.
COLUMNS = [
    ("RAM limit MiB", "limit_mib", ".0f"),
    ("build s", "build_s", ".1f"),
    ("build CPU s", "build_cpu_s", ".1f"),
    ("recall", "recall", ".3f"),
    ("queries", "asked", ".0f"),
    ("queries/s", "queries_per_s", ".0f"),
    ("p50 us", "p50_us", ".0f"),
    ("p99 us", "p99_us", ".0f"),
    ("max us", "max_us", ".0f"),
    ("CPU us", "cpu_us", ".0f"),
    ("KiB read", "read_kib", ".1f"),
    ("own MiB", "own_mib", ".0f"),
    ("group MiB", "group_mib", ".0f"),
]


def grouped(samples):
    """Samples of each pair of index and memory, in the order of the first run."""
    groups = {}
    for sample in samples:
        groups.setdefault((sample["index"], sample["memory"]), []).append(sample)
    return groups


def median(samples, field):
    """The median of a field; nothing where no sample has it."""
    values = [sample[field] for sample in samples if sample.get(field) is not None]
    return statistics.median(values) if values else None


def table(samples):
    """Lines of a table: a row for each index and memory."""
    lines = ["| index | memory | runs | " + " | ".join(title for title, _, _ in COLUMNS) + " | results |", "|" + " --- |" * (len(COLUMNS) + 4)]
    for (index, memory), some in grouped(samples).items():
        good = [sample for sample in some if not sample["failure"]]
        if not good:
            lines.append(f"| {index} | {memory} | 0 |" + " - |" * len(COLUMNS) + f" {some[0]['failure']} |")
            continue
        cells = [index, memory, str(len(good))]
        for _, field, form in COLUMNS:
            value = median(good, field)
            cells.append("-" if value is None else format(value, form))
        digests = sorted({sample["digest"][:8] for sample in good})
        same = "" if all(sample["is_same"] for sample in good) else ", NOT AS NATIVELY"
        failed = f", {len(some) - len(good)} failed" if len(some) > len(good) else ""
        lines.append("| " + " | ".join(cells) + f" | {' '.join(digests)}{same}{failed} |")
    return lines


def plot(samples, path):
    """Draws build times and latencies to a PNG or SVG file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    groups = {name: good for name, some in grouped(samples).items() if (good := [one for one in some if not one["failure"]])}
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 1.4 + 0.42 * len(groups)), sharey=True, constrained_layout=True)
    for place, ((_, memory), some) in enumerate(groups.items()):
        colour = COLOURS[memory]
        left.barh(place, median(some, "build_s"), color=colour, height=0.6)
        p50, p99, most = (median(some, field) for field in ("p50_us", "p99_us", "max_us"))
        right.plot([p50, most], [place, place], color=colour, linewidth=1)
        right.plot([p50, p99], [place, place], color=colour, linewidth=6, solid_capstyle="butt")
        right.plot(p50, place, "o", color=colour, markersize=9)
    left.set_yticks(range(len(groups)), [f"{index}, {memory}" for index, memory in groups])
    left.invert_yaxis()
    left.set_xlabel("seconds to build or open the index")
    right.set_xscale("log")
    right.set_xlabel("us for a query: median, 99 of 100, longest")
    first = samples[0]
    figure.suptitle(f"{first['count']:,} vectors of {first['dims']} float32, recall@{first['k']}, one thread", fontsize=11)
    for axes in (left, right):
        axes.grid(axis="x", alpha=0.3)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)
    plt.close(figure)
