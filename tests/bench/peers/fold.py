"""The same group-by and sort of the same file, by peers: a member's sum and latest instant, in rank order.

Arguments: polars or duckdb, the events (Parquet: member, score, at). Prints seconds and rows as JSON.
"""

import json
import sys
import time


def by_polars(path):
    import polars as pl

    began = time.perf_counter()
    lf = pl.scan_parquet(path).group_by("member").agg(pl.col("score").sum(), pl.col("at").max())
    rows = lf.sort(["score", "at", "member"], descending=[True, False, False]).collect(engine="streaming").height
    return time.perf_counter() - began, rows


def by_duckdb(path):
    import duckdb

    db = duckdb.connect()
    began = time.perf_counter()
    db.execute(
        'CREATE TABLE standings AS SELECT member, sum(score)::BIGINT AS score, max("at") AS "at" FROM read_parquet(?) GROUP BY member'
        ' ORDER BY score DESC, "at", member',
        [path],
    )
    seconds = time.perf_counter() - began
    return seconds, db.execute("SELECT count(*) FROM standings").fetchone()[0]


seconds, rows = {"polars": by_polars, "duckdb": by_duckdb}[sys.argv[1]](sys.argv[2])
print(json.dumps({"seconds": seconds, "rows": rows}))
