"""Groups, joins and sorts tables of random numbers: frames.py pandas|polars|duckdb ROWS. Prints digests."""
import hashlib
import sys

import numpy as np

THREADS = 2


def columns(count):
    rng = np.random.default_rng(20)
    names = np.char.add("name", rng.integers(0, 5_000, count).astype(str))
    return {"key": rng.integers(0, count, count), "name": names, "value": rng.integers(0, 1 << 30, count)}


def show(what, values):
    values = np.ascontiguousarray(values)
    content = "\n".join(map(str, values)).encode() if values.dtype.kind == "O" else values.tobytes()
    print(what, len(values), hashlib.sha256(content).hexdigest()[:32])


def use_pandas(count):
    import pandas as pd

    frame = pd.DataFrame(columns(count))
    show("group", frame.groupby("name")["value"].sum().to_numpy())
    joined = frame.merge(frame[["key", "value"]], on="key", suffixes=("", "_other"))
    show("join", np.sort((joined["value"] ^ joined["value_other"]).to_numpy()))
    ordered = frame.sort_values(["value", "key", "name"], kind="stable")
    show("sort", ordered["key"].to_numpy())
    show("names", ordered["name"].to_numpy(dtype=object)[:50_000])


def use_polars(count):
    import polars as pl

    frame = pl.DataFrame(columns(count))
    show("group", frame.group_by("name").agg(pl.col("value").sum()).sort("name")["value"].to_numpy())
    joined = frame.join(frame.select("key", "value"), on="key", suffix="_other")
    show("join", np.sort(joined["value"].to_numpy() ^ joined["value_other"].to_numpy()))
    ordered = frame.sort("value", "key", "name")
    show("sort", ordered["key"].to_numpy())
    show("names", np.array(ordered["name"][:50_000].to_list(), dtype=object))


def use_duckdb(count):
    import duckdb

    base = duckdb.connect(":memory:", config={"threads": THREADS, "memory_limit": "8GB"})
    base.execute(
        f"""CREATE TABLE t AS SELECT hash(i) % {count} AS key, 'name' || (hash(i, 1) % 5000) AS name,
            (hash(i, 2) % 1073741824)::BIGINT AS value FROM range({count}) r(i)"""
    )
    show("group", base.execute("SELECT sum(value)::BIGINT s FROM t GROUP BY name ORDER BY name").fetchnumpy()["s"])
    joined = "SELECT xor(a.value, b.value) x FROM t a JOIN t b ON a.key = b.key ORDER BY x"
    show("join", base.execute(joined).fetchnumpy()["x"])
    show("sort", base.execute("SELECT key FROM t ORDER BY value, key, name").fetchnumpy()["key"])


if __name__ == "__main__":
    {"pandas": use_pandas, "polars": use_polars, "duckdb": use_duckdb}[sys.argv[1]](int(sys.argv[2]))
