"""Whether every metric that rules and dashboard name is one that programs or donors offer, and the rules are read by Prometheus.

    metrics.py TEXT...      what `aquifer export --once` and `aquifer donate --metrics` gave
"""

import json
import pathlib
import re
import sys

etc = pathlib.Path(__file__).resolve().parent.parent.parent / "etc"


def expressions():
    """Each expression, with where it stands."""
    for line in (etc / "prometheus" / "aquifer.rules.yaml").read_text().splitlines():
        if line.strip().startswith("expr: "):
            yield "rules", line.strip().removeprefix("expr: ")
    dashboard = json.loads((etc / "grafana" / "aquifer.json").read_text())
    for panel in dashboard["panels"]:
        if panel["title"] == "Volumes and durable heaps":
            # Neither is here: tests of the command hold what follows against their numbers.
            return
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


offered = set()
for name in sys.argv[1:]:
    offered |= set(re.findall(r"^(aquifer_\w+)", pathlib.Path(name).read_text(), re.MULTILINE))
looked = 0
for where, expression in expressions():
    for metric in re.findall(r"aquifer_\w+", expression):
        looked += 1
        if metric not in offered:
            print(f"{where}: nothing offers {metric}")
            sys.exit(1)
print(f"{looked} names in rules and dashboard, {len(offered)} offered")
sys.exit(looked < 20)
