-- The tables of Laurel.
--
-- Times are Unix milliseconds. Scores are raw integers at the board's number of decimals. Text is
-- compared by bytes.
-- The placeholders {serial} {text} {id} {key} {folded} {bytes} {double} {without_rowid} {standing_key}
-- {standing_indexes} differ by database: see the .rs file of the same name. {id}, {key} and {folded}
-- are text that an index may hold: of at most 128, 255 and 600 characters.

-- identity names the deployment, and redis the Redis that it has: each partition there carries
-- both. The processes that reach that Redis write redis_seen_at_ms, by SQL's clock.
CREATE TABLE "deployment" (
    "id" INTEGER PRIMARY KEY CHECK ("id" = 1),
    "identity" {text} NOT NULL,
    "partitions" INTEGER NOT NULL,
    "dedup_hours" INTEGER NOT NULL CHECK ("dedup_hours" > 0),
    "tzdb" {text} NOT NULL,
    "redis" {text},
    "redis_seen_at_ms" BIGINT,
    "created_at_ms" BIGINT NOT NULL
);

-- The processes that have the deployment open. database is the file of SQLite, and empty for a
-- server. redis is the identity of a private Redis, and null where a URL names the Redis. Times are
-- by SQL's clock.
CREATE TABLE "process" (
    "id" {id} PRIMARY KEY,
    "holder" {text} NOT NULL,
    "host" {text} NOT NULL,
    "pid" INTEGER NOT NULL,
    "database" {text} NOT NULL,
    "redis" {text},
    "place" {text} NOT NULL,
    "started_at_ms" BIGINT NOT NULL,
    "heartbeat_at_ms" BIGINT NOT NULL
);

-- A deleted board keeps its row: its number is never reused, and every partition must learn of the
-- deletion.
CREATE TABLE "board" (
    "no" {serial},
    "slug" {id} NOT NULL UNIQUE,
    "title" {text} NOT NULL,
    "direction" {text} NOT NULL CHECK ("direction" IN ('HIGH_FIRST', 'LOW_FIRST')),
    "policy" {text} NOT NULL CHECK ("policy" IN ('SUM', 'BEST', 'LATEST')),
    "tie_break" {text} NOT NULL CHECK ("tie_break" IN ('EARLIEST', 'LATEST', 'MEMBER')),
    "tick_ms" INTEGER NOT NULL CHECK ("tick_ms" IN (1, 10, 100, 1000, 10000, 100000)),
    "decimals" INTEGER NOT NULL CHECK ("decimals" BETWEEN 0 AND 9),
    "min_score" BIGINT NOT NULL,
    "max_score" BIGINT NOT NULL,
    "time_zone" {text} NOT NULL,
    "shards" INTEGER NOT NULL CHECK ("shards" > 0),
    "former_layouts" {text} NOT NULL DEFAULT '[]',
    "reshard" {text},
    "reshard_until_ms" BIGINT,
    "segment_by" {text} NOT NULL,
    "visibility" {text} NOT NULL CHECK ("visibility" IN ('PUBLIC', 'PRIVATE')),
    "self_submit" BOOLEAN NOT NULL,
    "windows" {text} NOT NULL,
    "generation" INTEGER NOT NULL CHECK ("generation" > 0),
    "created_at_ms" BIGINT NOT NULL,
    "opens_at_ms" BIGINT,
    "closes_at_ms" BIGINT,
    "lateness_max_ms" BIGINT,
    "archived_before_ms" BIGINT,
    "deleted_at_ms" BIGINT,
    "purged_at_ms" BIGINT,
    CHECK ("min_score" < "max_score"),
    CHECK ("policy" <> 'LATEST' OR "tie_break" <> 'MEMBER')
);

-- name_folded is the name in lower case; databases fold only ASCII reliably.
CREATE TABLE "member" (
    "key" {id} PRIMARY KEY,
    "name" {text},
    "name_folded" {folded},
    "region" {text},
    "created_at_ms" BIGINT NOT NULL
);
CREATE INDEX "member_name" ON "member" ("name_folded", "key");

CREATE TABLE "friendship" (
    "low" {id} NOT NULL REFERENCES "member" ("key"),
    "high" {id} NOT NULL REFERENCES "member" ("key"),
    "created_at_ms" BIGINT NOT NULL,
    PRIMARY KEY ("low", "high"),
    CHECK ("low" < "high")
);
CREATE INDEX "friendship_high" ON "friendship" ("high", "low");

CREATE TABLE "access_token" (
    "id" {id} PRIMARY KEY,
    "hash" {text} NOT NULL,
    "scope" {text} NOT NULL CHECK ("scope" IN ('read', 'submit', 'admin')),
    "member" {text},
    "created_at_ms" BIGINT NOT NULL,
    "expires_at_ms" BIGINT,
    "revoked_at_ms" BIGINT
);

-- A commit's id is a hash of version, parent, random, seq, accepted_at_ms, clock_ms and leaves: see
-- docs/explanation/history.md. clock_ms is the deployment's clock: that of Redis, but never before
-- the previous commit's. gone counts the events that have a leaf and no row.
CREATE TABLE "commit" (
    "partition" INTEGER NOT NULL,
    "seq" BIGINT NOT NULL CHECK ("seq" > 0),
    "id" {id} NOT NULL,
    "parent" {id} NOT NULL,
    "accepted_at_ms" BIGINT NOT NULL,
    "clock_ms" BIGINT NOT NULL,
    "events" INTEGER NOT NULL,
    "gone" INTEGER NOT NULL,
    "version" INTEGER NOT NULL,
    "random" {bytes} NOT NULL,
    "leaves" {bytes} NOT NULL,
    PRIMARY KEY ("partition", "seq")
);
CREATE INDEX "commit_clock" ON "commit" ("partition", "clock_ms");

-- An event of kind VOID names the event that it voids.
CREATE TABLE "score_event" (
    "partition" INTEGER NOT NULL,
    "seq" BIGINT NOT NULL,
    "event_index" INTEGER NOT NULL CHECK ("event_index" >= 0),
    "board_no" BIGINT NOT NULL REFERENCES "board" ("no"),
    "generation" INTEGER NOT NULL,
    "member" {id} NOT NULL REFERENCES "member" ("key"),
    "kind" {id} NOT NULL CHECK ("kind" IN ('SCORE', 'REMOVAL', 'VOID')),
    "score" BIGINT,
    "at_ms" BIGINT,
    "at_sent" BOOLEAN NOT NULL,
    "event_id" {id},
    "segments" {text} NOT NULL,
    "void_partition" INTEGER,
    "void_seq" BIGINT,
    "void_index" INTEGER,
    "salt" {bytes} NOT NULL,
    PRIMARY KEY ("partition", "seq", "event_index"),
    FOREIGN KEY ("partition", "seq") REFERENCES "commit" ("partition", "seq"),
    CHECK (("kind" = 'VOID') = ("void_partition" IS NOT NULL AND "void_seq" IS NOT NULL AND "void_index" IS NOT NULL)),
    CHECK (("kind" = 'SCORE') = ("score" IS NOT NULL)),
    CHECK (("kind" = 'SCORE') = ("at_ms" IS NOT NULL))
);
-- A member's history in order; the few voids of a partition.
CREATE INDEX "score_event_member" ON "score_event" ("board_no", "member", "seq", "event_index");
CREATE INDEX "score_event_void" ON "score_event" ("partition", "seq") WHERE "void_seq" IS NOT NULL;

-- Signed statements about a commit.
CREATE TABLE "checkpoint" (
    "partition" INTEGER NOT NULL,
    "seq" BIGINT NOT NULL CHECK ("seq" > 0),
    "commit_id" {text} NOT NULL,
    "statement" {text} NOT NULL,
    "created_at_ms" BIGINT NOT NULL,
    PRIMARY KEY ("partition", "seq")
);

-- retired_runs are the last runs of Redis before the present one, with spaces between.
CREATE TABLE "log_cursor" (
    "partition" INTEGER PRIMARY KEY,
    "run_id" {text} NOT NULL,
    "seq" BIGINT NOT NULL CHECK ("seq" >= 0),
    "commit_id" {text} NOT NULL,
    "epoch" BIGINT NOT NULL,
    "retired_runs" {text} NOT NULL
);

CREATE TABLE "dead_letter" (
    "partition" INTEGER NOT NULL,
    "seq" BIGINT NOT NULL,
    "event_index" INTEGER NOT NULL,
    "payload" {text} NOT NULL,
    "reason" {text} NOT NULL,
    "state" {text} NOT NULL CHECK ("state" IN ('PENDING', 'VOIDED')),
    "created_at_ms" BIGINT NOT NULL,
    PRIMARY KEY ("partition", "seq", "event_index"),
    FOREIGN KEY ("partition", "seq") REFERENCES "commit" ("partition", "seq")
);

-- SQLite stores a table in the order of its key. There the key of standing begins with the
-- partition, so that the rows of a partition lie together, ordered by member. On every database the
-- board, member and segment identify a row.
CREATE TABLE "standing" (
    "board_no" BIGINT NOT NULL REFERENCES "board" ("no"),
    "segment" {key} NOT NULL,
    "member" {id} NOT NULL REFERENCES "member" ("key"),
    "score" BIGINT NOT NULL,
    "rank_key" BIGINT NOT NULL CHECK ("rank_key" >= 0),
    "partition" INTEGER NOT NULL,
    "seq" BIGINT NOT NULL,
    PRIMARY KEY ({standing_key})
){without_rowid};
{standing_indexes};

-- Sealed standings have a number, which keeps their entries and the index of the entries small, and
-- the number of their entries, as many readers ask for it.
-- Entries are ordered as in Redis: by rank key, then by the member's bytes.
CREATE TABLE "sealed_period" (
    "no" {serial},
    "board_no" BIGINT NOT NULL REFERENCES "board" ("no"),
    "generation" INTEGER NOT NULL,
    "window" {id} NOT NULL,
    "segment" {key} NOT NULL,
    "start_ms" BIGINT NOT NULL,
    "label" {text} NOT NULL,
    "sealed_at_ms" BIGINT NOT NULL,
    "size" BIGINT NOT NULL,
    "corrections" BIGINT NOT NULL,
    "corrected_at_ms" BIGINT,
    UNIQUE ("board_no", "generation", "window", "segment", "start_ms")
);
CREATE TABLE "sealed_entry" (
    "standings_no" BIGINT NOT NULL,
    "member" {id} NOT NULL,
    "score" BIGINT NOT NULL,
    "rank_key" BIGINT NOT NULL CHECK ("rank_key" >= 0),
    "partition" INTEGER NOT NULL,
    "seq" BIGINT NOT NULL,
    PRIMARY KEY ("standings_no", "member")
){without_rowid};
CREATE INDEX "sealed_entry_rank" ON "sealed_entry" ("standings_no", "rank_key", "member");

-- archive_mark says how far each partition's history of a board is archived. archive_file lists the
-- files. archived_entry holds the sums of a member's archived events in "all": rows of one member
-- and segment differ by the last seq that they include.
CREATE TABLE "archive_mark" (
    "board_no" BIGINT NOT NULL REFERENCES "board" ("no"),
    "partition" INTEGER NOT NULL,
    "archived_seq" BIGINT NOT NULL CHECK ("archived_seq" >= 0),
    "closing_seq" BIGINT NOT NULL CHECK ("closing_seq" >= "archived_seq"),
    "archived_before_ms" BIGINT,
    PRIMARY KEY ("board_no", "partition")
);
CREATE TABLE "archive_file" (
    "path" {key} PRIMARY KEY,
    "board_no" BIGINT NOT NULL REFERENCES "board" ("no"),
    "partition" INTEGER NOT NULL,
    "month" {text} NOT NULL,
    "first_seq" BIGINT NOT NULL CHECK ("first_seq" > 0),
    "last_seq" BIGINT NOT NULL CHECK ("last_seq" >= "first_seq"),
    "events" BIGINT NOT NULL CHECK ("events" >= 0),
    "bytes" BIGINT NOT NULL CHECK ("bytes" >= 0),
    "sha256" {text} NOT NULL,
    "state" {text} NOT NULL CHECK ("state" IN ('WRITING', 'ARCHIVED', 'DROPPED', 'GONE')),
    "created_at_ms" BIGINT NOT NULL,
    UNIQUE ("board_no", "partition", "first_seq")
);
-- The files of commits that have left the table commit.
CREATE TABLE "commit_file" (
    "path" {key} PRIMARY KEY,
    "partition" INTEGER NOT NULL,
    "first_seq" BIGINT NOT NULL CHECK ("first_seq" > 0),
    "last_seq" BIGINT NOT NULL CHECK ("last_seq" >= "first_seq"),
    "bytes" BIGINT NOT NULL CHECK ("bytes" >= 0),
    "sha256" {text} NOT NULL,
    "created_at_ms" BIGINT NOT NULL,
    UNIQUE ("partition", "first_seq")
);
CREATE TABLE "archived_entry" (
    "board_no" BIGINT NOT NULL REFERENCES "board" ("no"),
    "member" {id} NOT NULL,
    "segment" {key} NOT NULL,
    "through_seq" BIGINT NOT NULL CHECK ("through_seq" > 0),
    "partition" INTEGER NOT NULL,
    "score" BIGINT,
    "tick" BIGINT,
    "events" BIGINT NOT NULL CHECK ("events" >= 0),
    PRIMARY KEY ("board_no", "partition", "member", "segment", "through_seq"),
    CHECK (("score" IS NULL) = ("tick" IS NULL))
){without_rowid};

-- running is the name of a running job's lease. It is unique, and null once the job has ended.
CREATE TABLE "job" (
    "id" {serial},
    "kind" {id} NOT NULL,
    "board_no" BIGINT REFERENCES "board" ("no"),
    "state" {text} NOT NULL CHECK ("state" IN ('RUNNING', 'DONE', 'FAILED')),
    "progress" {double} NOT NULL CHECK ("progress" BETWEEN 0 AND 1),
    "started_at_ms" BIGINT NOT NULL,
    "finished_at_ms" BIGINT,
    "summary" {text},
    "running" {key},
    "holder" {text},
    "heartbeat_at_ms" BIGINT,
    CHECK (("state" = 'RUNNING') = ("running" IS NOT NULL)),
    CHECK (("running" IS NULL) = ("holder" IS NULL)),
    CHECK (("running" IS NULL) = ("heartbeat_at_ms" IS NULL)),
    CHECK (("state" = 'RUNNING') = ("finished_at_ms" IS NULL))
);
CREATE UNIQUE INDEX "job_running" ON "job" ("running");
CREATE INDEX "job_finished" ON "job" ("finished_at_ms");
CREATE INDEX "job_kind" ON "job" ("kind", "id");
CREATE INDEX "job_board" ON "job" ("board_no", "id");

CREATE TABLE "schedule" (
    "name" {id} PRIMARY KEY,
    "due_at_ms" BIGINT NOT NULL,
    "taken_at_ms" BIGINT NOT NULL,
    "attempts" INTEGER NOT NULL CHECK ("attempts" > 0),
    "finished" BOOLEAN NOT NULL
);

CREATE TABLE "integrity_run" (
    "id" {serial},
    "board_no" BIGINT REFERENCES "board" ("no"),
    "started_at_ms" BIGINT NOT NULL,
    "finished_at_ms" BIGINT,
    "checked" BIGINT NOT NULL,
    "found" BIGINT NOT NULL,
    "repaired" BIGINT NOT NULL
);
-- place is the location of a finding: ENTRY (an entry in Redis or a row of standing), SEALED (a row
-- of sealed_entry), ARCHIVED (a row of archived_entry), FILE (a file of the archive), KEY (a key in
-- Redis that Laurel never writes), PERIODS (a period missing from its list), COMMIT (a commit of a
-- partition), EVENT (an event of the history).
CREATE TABLE "integrity_finding" (
    "run_id" BIGINT NOT NULL REFERENCES "integrity_run" ("id"),
    "finding_index" INTEGER NOT NULL,
    "board_no" BIGINT NOT NULL,
    "kind" {text} NOT NULL CHECK ("kind" IN ('MISSING', 'PHANTOM', 'WRONG_SCORE', 'WRONG_TIE_BREAK', 'WRONG_WINDOW', 'ALTERED')),
    "place" {text} NOT NULL CHECK ("place" IN ('ENTRY', 'SEALED', 'ARCHIVED', 'FILE', 'KEY', 'PERIODS', 'COMMIT', 'EVENT')),
    "member" {text} NOT NULL,
    "window" {text} NOT NULL,
    "period" {text} NOT NULL,
    "segment" {text} NOT NULL,
    "history" BIGINT,
    "sql" BIGINT,
    "redis" BIGINT,
    "note" {text},
    "repaired" BOOLEAN NOT NULL,
    PRIMARY KEY ("run_id", "finding_index")
);
-- Digests that prove a partition's part of a board clean as of a commit, so that its history need
-- not be folded again.
CREATE TABLE "integrity_proof" (
    "board_no" BIGINT NOT NULL REFERENCES "board" ("no"),
    "partition" INTEGER NOT NULL,
    "seq" BIGINT NOT NULL,
    "commit_id" {text} NOT NULL,
    "layout" {text} NOT NULL,
    "redis" {text} NOT NULL,
    "sql" {text} NOT NULL,
    "files" {text} NOT NULL,
    "entries" BIGINT NOT NULL,
    "proven_at_ms" BIGINT NOT NULL,
    PRIMARY KEY ("board_no", "partition")
);
-- How far the commits of a partition were checked and found sound.
CREATE TABLE "integrity_chain" (
    "partition" INTEGER PRIMARY KEY,
    "seq" BIGINT NOT NULL,
    "commit_id" {text} NOT NULL,
    "checked_at_ms" BIGINT NOT NULL
);
