"""Turns a file of events into the archived history of a board, with its rows in SQL, as years of play and an archive would leave them.

Arguments: the SQLite file, the archive's directory, the events (Parquet: member, score, at), and the board as JSON: no, generation, the partition of
each shard, tick_ms, max_score, time_bits. It has no segments. The rules are SUM, HIGH_FIRST, EARLIEST, with the window `all` alone.
"""

import hashlib
import json
import os
import sqlite3
import struct
import sys
import time

import polars as pl
import xxhash

EVENTS_OF_COMMIT = 1000
ROWS_AT_ONCE = 1_000_000
NOW_MS = int(time.time() * 1000)
NO_SALT = bytes(16)


def main(database, archive, events, board):
    board = json.loads(board)
    partitions = board["partitions"]
    lf = pl.scan_parquet(events).with_columns(pl.col("at").dt.epoch("ms").alias("at_ms"))
    members = lf.select(pl.col("member").unique()).collect(engine="streaming")["member"]
    shards = [xxhash.xxh3_64_intdigest(member.encode()) % len(partitions) for member in members]
    home = pl.DataFrame({"member": members, "shard": pl.Series(shards, dtype=pl.Int32)})
    del members, shards

    db = sqlite3.connect(database, isolation_level=None)
    for pragma in ("synchronous=off", "cache_size=-1000000", "foreign_keys=off"):
        db.execute(f"PRAGMA {pragma}")
    # One transaction a shard is safe: no client asks for the board before all of it is there.
    entries = []
    # A few shards at once, so that the rest of the history need not fit into memory.
    for first in range(0, len(partitions), 32):
        some = home.filter(pl.col("shard").is_between(first, first + 31))
        part = lf.join(some.lazy(), on="member").select("member", "score", "at_ms", "shard").collect(engine="streaming")
        for (shard,), of_shard in part.partition_by("shard", as_dict=True).items():
            db.execute("BEGIN IMMEDIATE")
            entries.append(put(db, archive, board, partitions[shard], shard, of_shard))
            db.execute("COMMIT")
    del home, part
    # In the order of the tables' keys, so that each page of them is written once.
    entries = pl.concat(entries)
    members = entries["member"].sort()
    entries = entries.sort("partition", "member")
    for first in range(0, entries.height, ROWS_AT_ONCE):
        db.execute("BEGIN IMMEDIATE")
        known = ((member, NOW_MS) for member in members.slice(first, ROWS_AT_ONCE))
        db.executemany("INSERT OR IGNORE INTO member (key, created_at_ms) VALUES (?, ?)", known)
        add_up(db, board, entries.slice(first, ROWS_AT_ONCE))
        db.execute("COMMIT")
    db.execute("UPDATE board SET archived_before_ms = ? WHERE no = ?", (NOW_MS, board["no"]))


def put(db, archive, board, partition, shard, events):
    """Writes a shard's events: commits and a file. Returns their totals by member."""
    (after,) = db.execute("SELECT seq FROM log_cursor WHERE partition = ?", (partition,)).fetchone()
    count = events.height
    commits = -(-count // EVENTS_OF_COMMIT)
    last = after + commits
    # Seqs are dense from 1: another board may have put commits there before.
    parent = db.execute("SELECT commit_id FROM log_cursor WHERE partition = ?", (partition,)).fetchone()[0]
    leaves = [leaf(board, *event) for event in events.select("member", "score", "at_ms").iter_rows()]
    rows = []
    for seq in range(after + 1, last + 1):
        first = (seq - after - 1) * EVENTS_OF_COMMIT
        held = leaves[first : first + EVENTS_OF_COMMIT]
        commit = commit_id(parent, seq, held)
        rows.append((partition, seq, commit, parent, NOW_MS, NOW_MS, len(held), 0, 1, NO_SALT, b"".join(held)))
        parent = commit
    db.executemany('INSERT INTO "commit" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)', rows)
    db.execute("UPDATE log_cursor SET seq = ?, commit_id = ? WHERE partition = ?", (last, parent, partition))

    place = pl.int_range(pl.len(), dtype=pl.Int64)
    none = lambda kind: pl.lit(None, dtype=kind)
    frame = events.select(
        pl.lit(partition, dtype=pl.Int32).alias("partition"),
        pl.lit(shard, dtype=pl.Int32).alias("shard"),
        (after + 1 + place // EVENTS_OF_COMMIT).alias("seq"),
        (place % EVENTS_OF_COMMIT).cast(pl.Int32).alias("event_index"),
        pl.lit(board["no"], dtype=pl.Int64).alias("board_no"),
        pl.lit(board["generation"], dtype=pl.Int32).alias("generation"),
        "member",
        pl.lit("SCORE").alias("kind"),
        "score",
        "at_ms",
        pl.lit(True).alias("at_sent"),
        none(pl.String).alias("event_id"),
        pl.lit([], dtype=pl.List(pl.String)).alias("segments"),
        none(pl.Int32).alias("void_partition"),
        none(pl.Int64).alias("void_seq"),
        none(pl.Int32).alias("void_index"),
        pl.lit(NOW_MS, dtype=pl.Int64).alias("accepted_at_ms"),
        pl.lit(NO_SALT.hex()).alias("salt"),
    )
    month = time.strftime("%Y-%m", time.gmtime(NOW_MS / 1000))
    path = f"board-{board['no']}/{partition}-{after + 1}.parquet"
    whole = os.path.join(archive, path)
    os.makedirs(os.path.dirname(whole), exist_ok=True)
    frame.write_parquet(whole, compression="zstd", compression_level=3)
    with open(whole, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    db.execute(
        "INSERT INTO archive_file VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'DROPPED', ?)",
        (path, board["no"], partition, month, 1, last, count, os.path.getsize(whole), digest, NOW_MS),
    )
    db.execute("INSERT INTO archive_mark VALUES (?, ?, ?, ?, ?)", (board["no"], partition, last, last, NOW_MS))

    return events.group_by("member").agg(
        pl.col("score").sum(),
        (pl.col("at_ms").max() // board["tick_ms"]).alias("tick"),
        pl.len().alias("events"),
        pl.lit(partition, dtype=pl.Int32).alias("partition"),
        pl.lit(last, dtype=pl.Int64).alias("seq"),
    )


def leaf(board, member, score, at_ms):
    """The leaf of a score, as docs/explanation/history.md says."""
    member = member.encode()
    head = b"\1E" + NO_SALT + struct.pack(">qII", board["no"], board["generation"], len(member))
    return hashlib.sha256(head + member + struct.pack(">BqqBBI", 1, score, at_ms, 1, 0, 0)).digest()


def commit_id(parent, seq, leaves):
    """The id of a commit, as docs/explanation/history.md says."""
    head = b"\1C" + struct.pack(">I", len(parent)) + parent.encode() + NO_SALT
    return hashlib.sha256(head + struct.pack(">QqqI", seq, NOW_MS, NOW_MS, len(leaves)) + b"".join(leaves)).hexdigest()


def add_up(db, board, entries):
    """Writes the totals of members to all tables that hold them."""
    db.executemany(
        "INSERT INTO archived_entry (board_no, member, segment, score, tick, events, partition, through_seq) VALUES (?, ?, '', ?, ?, ?, ?, ?)",
        ((board["no"], *row) for row in entries.iter_rows()),
    )
    db.executemany(
        "INSERT INTO standing (board_no, segment, member, score, rank_key, partition, seq) VALUES (?, '', ?, ?, ?, ?, ?)",
        (
            (board["no"], member, score, ((board["max_score"] - score) << board["time_bits"]) + tick, partition, seq)
            for member, score, tick, events, partition, seq in entries.iter_rows()
        ),
    )


main(*sys.argv[1:])
