//! The deletion of a member's rows, and of what Redis remembers of it.

use std::collections::BTreeMap;

use entity::board;
use entity::error::{Error, Result};
use entity::history::{commit, dead_letter, score_event};
use entity::member::erasure::{self, Counts, Model, Step};
use entity::member::quarantine;
use entity::sql::begin;
use entity::sql::dialect::{delete_returning, statement};
use entity::webhook::outbox::{self, Notice};
use entity::webhook::{Kind, circle};
use ranking::board::Board;
use ranking::id::{BoardNo, MemberId, PartitionNo};
use ranking::store::write::Writes;
use ranking::submission::event_ids::seen_entry;
use sea_orm::{
    ActiveEnum, ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    QueryFilter, QuerySelect, Value,
};
use serde_json::json;
use tokio::time::Instant;

use crate::deployment::Deployment;
use crate::failpoint;
use crate::history::archive::erasing::is_in_the_way;
use crate::history::mirror;
use crate::merge::tell_members;
use crate::partition::Partition;
use crate::partition::change::{Change, Proposal};

/// The events that one transaction deletes. Chunks let the persister write in between.
const EVENTS_MAX: usize = 1000;

/// The events that go before the others, as a condition: a fold without them and with the removals
/// after them gives nothing of the member.
const NO_REMOVALS: &str = r#" AND "kind" <> 'REMOVAL'"#;

/// The tables whose rows of a member go in one transaction, and the column that names it. The rows
/// of a member come last: others refer to it.
const TABLES: [(&str, &[&str]); 12] = [
    ("archived_entry", &["member"]),
    ("archived_metadata", &["member"]),
    ("standing", &["member"]),
    ("friendship", &["low", "high"]),
    ("friend_request", &["low", "high"]),
    ("member_visibility", &["member"]),
    ("member_report", &["member", "reporter"]),
    ("quarantined_score", &["member"]),
    ("ban_removal", &["member"]),
    ("member_ban", &["member"]),
    ("member_merge", &["source"]),
    ("integrity_finding", &["member"]),
];

/// Event ids in a partition's memory: a bucket and a field for each.
type Seen = BTreeMap<PartitionNo, Vec<(i64, String)>>;

/// True if a score of the member is or was in quarantine.
pub(super) async fn has_quarantined(db: &impl ConnectionTrait, member: &str) -> Result<bool> {
    let of_member = quarantine::Entity::find().filter(quarantine::Column::Member.eq(member));
    Ok(of_member.one(db).await?.is_some())
}

/// True if files of the archive or of the lake may have events of the member.
pub(super) async fn waits_for_files(
    db: &impl ConnectionTrait,
    row: &Model,
    member: &MemberId,
) -> Result<bool> {
    Ok(is_in_the_way(db, member.as_str()).await?
        || mirror::is_in_the_way(db, row, member.as_str()).await?)
}

/// Deletes the member's events on all boards, in steps. Their commits keep the leaves, and count
/// them as gone; partitions forget the ids.
pub(super) async fn delete_events(
    deployment: &Deployment,
    row: &Model,
    member: &MemberId,
    deadline: Instant,
) -> Result<()> {
    let mut last = 0;
    loop {
        let boards = board::after(&deployment.db, last).await?;
        let Some(end) = boards.last() else { return Ok(()) };
        last = end.no;
        for board in boards {
            for which in [NO_REMOVALS, ""] {
                while delete_some(deployment, row, (member, which), &board).await? {
                    failpoint::hit("erasure-events");
                    if Instant::now() >= deadline {
                        return Err(Error::Overtaken("an erasure takes long".into()));
                    }
                }
            }
        }
    }
}

/// Deletes some of the member's events on a board that meet a condition. Returns false if there are
/// none.
async fn delete_some(
    deployment: &Deployment,
    row: &Model,
    (member, which): (&MemberId, &str),
    board: &board::Model,
) -> Result<bool> {
    let board_no = board.no;
    use score_event::Column::{BoardNo as No, Kind as Of, Member};
    let limit = failpoint::batch_size(EVENTS_MAX) as u64;
    let mut events = score_event::Entity::find()
        .filter(No.eq(board_no))
        .filter(Member.eq(member.as_str()))
        .limit(limit);
    if !which.is_empty() {
        events = events.filter(Of.ne(score_event::Kind::Removal));
    }
    let events = events.all(&deployment.db).await?;
    if events.is_empty() {
        return Ok(false);
    }
    // First: SQL alone knows the ids.
    let present = deployment.store.partitions().of_member(&board.to_ranking()?, member);
    for (partition, seen) in seen_of(deployment, &events, present).await? {
        let mut forgetting = Forgetting { seen, boards: &[], member };
        deployment.partition(partition).commit_change(&mut forgetting).await?;
    }
    failpoint::hit("erasure-forgotten");
    const KEY: (&str, usize) = (r#""partition", "seq", "event_index""#, 3);
    let some = format!(
        r#"SELECT {} FROM "score_event" WHERE "board_no" = $1 AND "member" = $2{which} LIMIT {limit}"#,
        KEY.0
    );
    let transaction = begin(&deployment.db).await?;
    let values = vec![board_no.into(), member.as_str().into()];
    let deleted = delete_returning(&transaction, "score_event", KEY, &some, values).await?;
    let mut gone: BTreeMap<(i32, i64), u32> = BTreeMap::new();
    for row in &deleted {
        let place = (row.try_get("", "partition")?, row.try_get("", "seq")?);
        *gone.entry(place).or_default() += 1;
    }
    commit::count_gone(&transaction, &gone).await?;
    erasure::event::count(&transaction, &gone).await?;
    let counts = Counts::from([("score_event".to_owned(), deleted.len() as u64)]);
    if !erasure::add_counts(&transaction, row, &counts).await? {
        transaction.rollback().await?;
        return Err(super::overtaken());
    }
    transaction.commit().await?;
    Ok(true)
}

/// The ids of some events, as partitions remember them.
///
/// The ids of a board that moved may be in the member's present partition, too.
async fn seen_of(
    deployment: &Deployment,
    events: &[score_event::Model],
    present: PartitionNo,
) -> Result<Seen> {
    let mut by_partition: BTreeMap<i32, Vec<&score_event::Model>> = BTreeMap::new();
    for event in events.iter().filter(|event| event.event_id.is_some()) {
        by_partition.entry(event.partition).or_default().push(event);
    }
    let mut all = Seen::new();
    for (partition, events) in by_partition {
        let seqs = events.iter().map(|event| event.seq).collect();
        let times = commit::times_of_seqs(&deployment.db, partition, seqs).await?;
        for event in events {
            let Some(times) = times.get(&event.seq) else { continue };
            let entry = seen_entry(&event.to_ranking()?, times.accepted_at_ms, event.seq as u64);
            let Some((field, _)) = entry else { continue };
            let bucket = deployment.dedup.bucket(times.clock_ms);
            let place = event.place()?.partition;
            all.entry(place).or_default().push((bucket, field.clone()));
            if place != present {
                all.entry(present).or_default().push((bucket, field));
            }
        }
    }
    Ok(all)
}

/// Deletes all other rows of the member, and with them ends the step.
pub(super) async fn delete_rest(
    deployment: &Deployment,
    row: &Model,
    member: &MemberId,
) -> Result<()> {
    let transaction = begin(&deployment.db).await?;
    let mut counts = Counts::new();
    for (table, columns) in TABLES {
        for column in columns {
            let gone = delete_where(&transaction, table, column, member.as_str()).await?;
            *counts.entry(table.to_owned()).or_default() += gone;
        }
    }
    counts.insert("entrant".to_owned(), leave_all(&transaction, member).await?);
    counts.insert("dead_letter".to_owned(), blank_letters(&transaction, member).await?);
    counts.insert("access_token".to_owned(), end_tokens(&transaction, row, member).await?);
    counts.insert("audit_log".to_owned(), blank_acts(&transaction, row, member).await?);
    counts.insert("outbox".to_owned(), outbox::erase(&transaction, member.as_str()).await?);
    counts.insert("webhook_circle".to_owned(), circle::erase(&transaction, member.as_str()).await?);
    tell(&transaction, deployment, row).await?;
    let gone = delete_where(&transaction, "member", "key", member.as_str()).await?;
    counts.insert("member".to_owned(), gone);
    let is_first = erasure::add_counts(&transaction, row, &counts).await?
        && erasure::advance(&transaction, row, Step::Releasing).await?;
    if !is_first {
        transaction.rollback().await?;
        return Err(super::overtaken());
    }
    Ok(transaction.commit().await?)
}

/// Tells webhooks of the erasure, without the key: a receiver finds it among its own by the hash.
async fn tell(
    transaction: &DatabaseTransaction,
    deployment: &Deployment,
    row: &Model,
) -> Result<(), DbErr> {
    let data = json!({
        "change": "ERASED", "mode": row.mode.to_value(), "salt": row.salt, "hash": row.hash,
    });
    let at_ms = deployment.clock.now_ms();
    let told = Notice { kind: Kind::Member, board_no: None, member: None, data, at_ms };
    outbox::tell(transaction, &[told]).await
}

async fn delete_where(
    transaction: &DatabaseTransaction,
    table: &str,
    column: &str,
    member: &str,
) -> Result<u64, DbErr> {
    let delete = format!(r#"DELETE FROM "{table}" WHERE "{column}" = $1"#);
    let backend = transaction.get_database_backend();
    let values: [Value; 1] = [member.into()];
    Ok(transaction.execute_raw(statement(backend, delete, values)).await?.rows_affected())
}

/// Takes the member's places on boards.
async fn leave_all(transaction: &DatabaseTransaction, member: &MemberId) -> Result<u64, DbErr> {
    let backend = transaction.get_database_backend();
    let fewer = r#"UPDATE "board" SET "entrants" = "entrants" - 1 WHERE "no" IN
        (SELECT "board_no" FROM "entrant" WHERE "member" = $1)"#;
    let values: [Value; 1] = [member.as_str().into()];
    transaction.execute_raw(statement(backend, fewer, values)).await?;
    delete_where(transaction, "entrant", "member", member.as_str()).await
}

/// Takes the content from the member's refused events, which are voided.
async fn blank_letters(transaction: &DatabaseTransaction, member: &MemberId) -> Result<u64> {
    use dead_letter::Column::{EventIndex, Partition, Seq};
    let mut blanked = 0;
    for letter in dead_letter::Entity::find().all(transaction).await? {
        if letter.event().is_ok_and(|(_, event)| event.member == *member) {
            if letter.state != dead_letter::State::Voided {
                return Err(ranking::Error::Unavailable(
                    "an event of the member that SQL refused still counts: it is voided first"
                        .into(),
                )
                .into());
            }
            let place = Condition::all()
                .add(Partition.eq(letter.partition))
                .add(Seq.eq(letter.seq))
                .add(EventIndex.eq(letter.event_index));
            blanked += dead_letter::blank(transaction, place).await?;
        }
    }
    Ok(blanked)
}

/// Revokes the member's tokens, and takes its name from them. The rows stay, so that other
/// processes learn of it.
async fn end_tokens(
    transaction: &DatabaseTransaction,
    row: &Model,
    member: &MemberId,
) -> Result<u64, DbErr> {
    let backend = transaction.get_database_backend();
    let now = entity::deployment::clock::sql_now(backend);
    let end = format!(
        r#"UPDATE "access_token" SET "revoked_at_ms" = COALESCE("revoked_at_ms", {now}),
            "name" = NULL, "member" = $1 WHERE "member" = $2"#
    );
    let values: [Value; 2] = [format!("erased-{}", row.id).into(), member.as_str().into()];
    Ok(transaction.execute_raw(statement(backend, end, values)).await?.rows_affected())
}

/// Takes the member from the acts of the audit log. The rows stay; what they say of values goes.
async fn blank_acts(
    transaction: &DatabaseTransaction,
    row: &Model,
    member: &MemberId,
) -> Result<u64> {
    let backend = transaction.get_database_backend();
    let mut quoted = serde_json::to_string(member.as_str()).map_err(|error| {
        ranking::Error::Invalid(format!("a key that has no form in JSON: {error}"))
    })?;
    for special in ['!', '%', '_'] {
        quoted = quoted.replace(special, &format!("!{special}"));
    }
    let blank = r#"UPDATE "audit_log" SET "before" = NULL, "after" = NULL,
        "error" = CASE WHEN "outcome" = 'FAILED' THEN 'erased' END"#;
    let named = format!(r#"{blank}, "member" = $1 WHERE "member" = $2"#);
    let named_by: [Value; 2] = [format!("erased-{}", row.id).into(), member.as_str().into()];
    let told = format!(
        r#"{blank} WHERE "before" LIKE $1 ESCAPE '!' OR "after" LIKE $2 ESCAPE '!' OR "error" LIKE $3 ESCAPE '!'"#
    );
    let within = format!("%{quoted}%");
    let told_by: [Value; 3] = [within.as_str().into(), within.as_str().into(), within.into()];
    let mut blanked = 0;
    for statement in [statement(backend, named, named_by), statement(backend, told, told_by)] {
        blanked += transaction.execute_raw(statement).await?.rows_affected();
    }
    Ok(blanked)
}

/// Lets all partitions forget the member, and drop the commits that SQL has from their logs; then
/// makes the row a receipt.
pub(super) async fn release(deployment: &Deployment, row: &Model) -> Result<()> {
    let member = row.member_id()?;
    let joined = board::living().filter(board::Column::Joining.eq(true));
    let joined = joined.all(&deployment.db).await?;
    let boards: Vec<Board> =
        joined.iter().map(board::Model::to_ranking).collect::<ranking::Result<_>>()?;
    for partition in deployment.partitions() {
        let of_member = |board: &&Board| {
            deployment.store.partitions().of_member(board, &member) == partition.no
        };
        let boards: Vec<Board> = boards.iter().filter(of_member).cloned().collect();
        if !boards.is_empty() {
            let mut forgetting = Forgetting { seen: vec![], boards: &boards, member: &member };
            partition.commit_change(&mut forgetting).await?;
        }
    }
    tell_members(deployment, vec![member]).await?;
    failpoint::hit("erasure-told");
    for partition in deployment.partitions() {
        if let Some(cursor) = partition.cursor().await? {
            let seq = cursor.seq.unsigned_abs();
            partition.store.trim(partition.no, &cursor.run_id, seq, 0).await?;
        }
    }
    failpoint::hit("erasure-trimmed");
    let now_ms = entity::deployment::clock::sql_now_ms(&deployment.db).await?;
    Ok(erasure::finish(&deployment.db, row, now_ms).await?)
}

/// A commit that takes a member from what a partition remembers.
struct Forgetting<'a> {
    seen: Vec<(i64, String)>,
    /// The boards whose lists of entrants forget it.
    boards: &'a [Board],
    member: &'a MemberId,
}

impl Change for Forgetting<'_> {
    type Outcome = ();

    async fn propose(&mut self, partition: Partition<'_>) -> Result<Proposal<()>> {
        let tail = partition.head(BoardNo(0), &[]).await?;
        let (keys, mut writes) = (partition.store.keys(), Writes::default());
        for (bucket, field) in &self.seen {
            writes.forget_seen(&keys.seen(partition.no, *bucket), field);
        }
        for board in self.boards {
            writes.forget_entrant(keys, partition.no, board, self.member);
        }
        Ok(Proposal::nothing(tail.head, ()).writing(writes, partition.clock.now_ms()))
    }
}
