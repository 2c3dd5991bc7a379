#!/usr/bin/env python3
"""What the released programs and libraries are made of, from `cargo metadata`.

  scripts/bom.py spdx           a bill of materials, SPDX 2.3 as JSON
  scripts/bom.py third-party    licences and notices of the crates of others, as text

Only crates that become part of a program count, not those that build it or test it. The same source gives the same bytes: the time is
that of SOURCE_DATE_EPOCH, and the document's name contains a hash of what it lists.
"""

import collections
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RELEASED = {
    "aquifer-cli": "the command aquifer",
    "aquifer-capi": "libaquifer",
    "aquifer-preload": "libaquifer_preload",
    "aquifer-sqlite": "libaquifer_sqlite",
    "aquifer-nbdkit": "libaquifer_nbdkit",
    "aquifer-python": "the Python package aquifer",
}
TARGET = "x86_64-unknown-linux-gnu"
NOTICES = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)


def metadata():
    """Packages by id, and for each id the ids that become part of it."""
    cargo = os.environ.get("CARGO", "cargo")
    command = [cargo, "metadata", "--format-version=1", "--locked", f"--filter-platform={TARGET}"]
    found = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in found["packages"]}
    becomes = {}
    for node in found["resolve"]["nodes"]:
        parts = [part["pkg"] for part in node["deps"] if any(kind["kind"] is None for kind in part["dep_kinds"])]
        # What runs in the compiler is in no program.
        becomes[node["id"]] = [part for part in parts if not is_macro(packages[part])]
    return packages, becomes


def is_macro(package):
    return any("proc-macro" in target["kind"] for target in package["targets"])


def released(packages):
    roots = [identity for identity, package in packages.items() if package["name"] in RELEASED and not package["source"]]
    if len(roots) != len(RELEASED):
        sys.exit(f"bom: of {', '.join(RELEASED)} cargo knows {len(roots)}")
    return roots


def reached(roots, becomes):
    """The roots and all that becomes part of them."""
    seen, left = set(roots), collections.deque(roots)
    while left:
        for part in becomes[left.popleft()]:
            if part not in seen:
                seen.add(part)
                left.append(part)
    return seen


def checksums():
    """Of each crate of a registry, by name and version, as Cargo.lock has them."""
    found = {}
    for block in (ROOT / "Cargo.lock").read_text().split("[[package]]")[1:]:
        said = dict(re.findall(r'^(name|version|checksum) = "(.*)"$', block, re.MULTILINE))
        if "checksum" in said:
            found[said["name"], said["version"]] = said["checksum"]
    return found


def licence(package):
    # A slash is the old form of OR.
    said = package["license"]
    return re.sub(r"\s*/\s*", " OR ", said) if said else "NOASSERTION"


def reference(package):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", f"{package['name']}-{package['version']}")


def described(package, sums):
    entry = {
        "SPDXID": reference(package),
        "name": package["name"],
        "versionInfo": package["version"],
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence(package),
        "copyrightText": "NOASSERTION",
        "downloadLocation": "NOASSERTION",
    }
    if package["source"]:
        name, version = package["name"], package["version"]
        entry["downloadLocation"] = f"https://static.crates.io/crates/{name}/{name}-{version}.crate"
        entry["externalRefs"] = [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:cargo/{name}@{version}",
            }
        ]
        if (name, version) in sums:
            entry["checksums"] = [{"algorithm": "SHA256", "checksumValue": sums[name, version]}]
    if package["name"] in RELEASED:
        entry["comment"] = f"Released as {RELEASED[package['name']]}."
    return entry


def relation(source, kind, target):
    return {"spdxElementId": source, "relationshipType": kind, "relatedSpdxElement": target}


def spdx():
    packages, becomes = metadata()
    roots = released(packages)
    parts = sorted(reached(roots, becomes), key=lambda identity: reference(packages[identity]))
    sums = checksums()
    relations = [relation("SPDXRef-DOCUMENT", "DESCRIBES", reference(packages[root])) for root in sorted(roots)]
    for identity in parts:
        for part in sorted(set(becomes[identity])):
            relations.append(relation(reference(packages[identity]), "DEPENDS_ON", reference(packages[part])))
    listed = [described(packages[identity], sums) for identity in parts]
    version = packages[roots[0]]["version"]
    content = hashlib.sha256(json.dumps([listed, relations]).encode()).hexdigest()
    created = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"aquifer-{version}",
        "documentNamespace": f"urn:aquifer:{version}:{content}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: aquifer-bom"]},
        "packages": listed,
        "relationships": relations,
    }
    json.dump(document, sys.stdout, indent=1)
    print()
    print(f"bom: {len(listed)} crates", file=sys.stderr)


def third_party():
    packages, becomes = metadata()
    crates = [packages[identity] for identity in reached(released(packages), becomes) if packages[identity]["source"]]
    crates.sort(key=reference)
    texts = collections.defaultdict(list)
    print("Aquifer's command and libraries contain these crates, under the licence named; https://crates.io has their sources.")
    print()
    for crate in crates:
        name = f"{crate['name']} {crate['version']}"
        print(f"{name}: {licence(crate)}")
        folder = pathlib.Path(crate["manifest_path"]).parent
        for path in sorted(folder.iterdir()):
            if path.is_file() and NOTICES.match(path.name):
                text = path.read_text(errors="replace").replace("\r\n", "\n").strip()
                texts[text].append(f"{name} ({path.name})")
    for text, names in texts.items():
        print("\n" + "=" * 100)
        print("\n".join(names))
        print("-" * 100)
        print(text)
    print(f"bom: {len(crates)} crates, {len(texts)} texts", file=sys.stderr)


COMMANDS = {"spdx": spdx, "third-party": third_party}
if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
    sys.exit(__doc__)
COMMANDS[sys.argv[1]]()
