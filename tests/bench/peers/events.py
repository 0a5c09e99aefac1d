"""Writes a Parquet file of events in which every member plays equally often, in an order that is no help to a sort.

Arguments: the file, the number of members, the number of events of each.
"""

import sys

import polars as pl

# A prime, so that all members come once before one comes again.
STRIDE = 2_654_435_761
AT_ONCE = 5_000_000
START_MS = 1_735_689_600_000


def main(file, members, events_of_member):
    members, events = int(members), int(members) * int(events_of_member)
    width = len(str(members))
    event = pl.col("event")
    frames = (
        pl.select(pl.int_range(first, min(first + AT_ONCE, events), dtype=pl.Int64).alias("event"))
        .lazy()
        .select(
            (pl.lit("m") + (event * STRIDE % members).cast(pl.String).str.zfill(width)).alias("member"),
            (event.hash(1) % 1000 + 1).cast(pl.Int64).alias("score"),
            (START_MS + event * 2_592_000_000 // events).cast(pl.Datetime("ms", "UTC")).alias("at"),
        )
        for first in range(0, events, AT_ONCE)
    )
    pl.concat(frames).sink_parquet(file, compression="zstd", compression_level=3)


main(*sys.argv[1:])
