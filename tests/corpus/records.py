"""One JSON line for each run of a program."""
import json
import os
import sys

from swap import page_cluster


class Records:
    """Lines in the file at `path`, on standard output with "-", or nowhere."""

    def __init__(self, path):
        self.file, self.are_all = None, path == "-"
        if path == "-":
            self.file = os.fdopen(os.dup(sys.stdout.fileno()), "w")
            # Nothing but records is there from now on.
            os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        elif path:
            self.file = open(path, "a")

    def __bool__(self):
        return self.file is not None

    def keep(self, result, peer, number, ended=None, outcome="right", why="", divisor=None, **figures):
        """Writes a run; `number` counts from 0, `divisor` is of the memory that the program takes natively, where there is no limit.

        `outcome` is right, or wrong (other output), failed (another status), crashed, killed (for want of memory), hang, slow, refused, void (no
        comparison) or skipped, and `why` says more.
        """
        if not self:
            return
        line = {"program": result.name, "version": result.version, "peer": peer, "divisor": divisor, "run": number + 1}
        if ended:
            line |= {"seconds": round(ended.seconds, 3), "cpu_seconds": round(ended.cpu_seconds, 3)}
            line |= {"peak_mib": ended.peak_mib, "total_mib": ended.total_mib}
        line |= {"need_mib": result.need_mib, "page_cluster": int(page_cluster()), "load": os.getloadavg()[0], **figures}
        json.dump(line | {"outcome": outcome, "why": why}, self.file)
        self.file.write("\n")
        self.file.flush()
