#!/usr/bin/env python3
"""Makes a container image of one layer.

  scripts/image.py ROOT.tar IMAGE.tar VERSION

IMAGE.tar is a layout as the Open Container Initiative describes it, with the manifest.json that `docker load` reads beside it. Times are
that of SOURCE_DATE_EPOCH, so that the same root gives the same bytes.
"""

import datetime
import gzip
import hashlib
import io
import json
import os
import sys
import tarfile

EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
# As in etc/container/Dockerfile.
CONFIG = {
    "Entrypoint": ["aquifer", "run"],
    "Cmd": ["--help"],
    "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR=/flash"],
    "Volumes": {"/flash": {}},
}


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def encoded(value):
    return json.dumps(value, sort_keys=True).encode()


def descriptor(kind, content, **more):
    return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": digest(content), "size": len(content), **more}


def blob(content):
    return "blobs/sha256/" + digest(content).removeprefix("sha256:")


def main():
    root, out, version = sys.argv[1:]
    with open(root, "rb") as file:
        tar = file.read()
    layer = gzip.compress(tar, compresslevel=9, mtime=0)
    name = f"aquifer:{version}"
    labels = {
        "org.opencontainers.image.title": "aquifer",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
    }
    created = datetime.datetime.fromtimestamp(EPOCH, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = encoded(
        {
            "architecture": "amd64",
            "os": "linux",
            "created": created,
            "config": {**CONFIG, "Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": [digest(tar)]},
            "history": [{"created": created, "created_by": "scripts/build-image.sh"}],
        }
    )
    manifest = encoded(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("config.v1+json", config),
            "layers": [descriptor("layer.v1.tar+gzip", layer)],
        }
    )
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": version}
    index = encoded(
        {"schemaVersion": 2, "manifests": [descriptor("manifest.v1+json", manifest, annotations=names)]}
    )
    docker = encoded([{"Config": blob(config), "RepoTags": [name], "Layers": [blob(layer)]}])
    files = {
        "oci-layout": encoded({"imageLayoutVersion": "1.0.0"}),
        "index.json": index,
        "manifest.json": docker,
        **{blob(content): content for content in (config, manifest, layer)},
    }
    with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mtime, entry.mode = len(content), EPOCH, 0o644
            archive.addfile(entry, io.BytesIO(content))


if len(sys.argv) != 4:
    sys.exit(__doc__)
main()
