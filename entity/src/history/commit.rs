//! The commits that SQL has: every step of every partition's history.

use std::collections::BTreeMap;

use ranking::commit::Commit;
use ranking::commit::content::Content;
use ranking::id::PartitionNo;
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect};

use crate::sql::dialect::add_to_each;

/// A row of `commit`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "commit")]
pub struct Model {
    /// The partition.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// The seq, dense from 1.
    #[sea_orm(primary_key, auto_increment = false)]
    pub seq: i64,
    /// The commit id.
    pub id: String,
    /// The id of the previous commit.
    pub parent: String,
    /// Time of acceptance, in Unix milliseconds, by the clock of the process that accepted it.
    pub accepted_at_ms: i64,
    /// The deployment's clock, in Unix milliseconds: that of Redis, but never before the previous
    /// commit's. Event ids are kept by it.
    pub clock_ms: i64,
    /// The number of its events.
    pub events: i32,
    /// The number of its events that history no longer has, or never had: of deleted boards,
    /// refused by SQL, or erased. Their leaves stay.
    pub gone: i32,
    /// The version of its content.
    pub version: i32,
    /// The random bytes of its content.
    pub random: Vec<u8>,
    /// The leaves of its events, one behind the other.
    pub leaves: Vec<u8>,
}

no_relations!();

/// The times of a commit, in Unix milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// The time of acceptance.
    pub accepted_at_ms: i64,
    /// The deployment's clock.
    pub clock_ms: i64,
}

impl Model {
    /// The row of a commit; `gone` of its events have no row.
    pub fn of_commit(partition: PartitionNo, commit: &Commit, gone: usize) -> Self {
        Self {
            partition: partition.into(),
            seq: commit.seq as i64,
            id: commit.id.clone(),
            parent: commit.parent.clone(),
            accepted_at_ms: commit.accepted_at_ms,
            clock_ms: commit.clock_ms,
            events: commit.events.len() as i32,
            gone: gone as i32,
            version: commit.version().into(),
            random: commit.random[..16].to_vec(),
            leaves: commit.leaves.clone(),
        }
    }

    /// Its times.
    pub fn times(&self) -> Times {
        Times { accepted_at_ms: self.accepted_at_ms, clock_ms: self.clock_ms }
    }

    /// The id that follows from the other columns.
    ///
    /// # Errors
    /// `Corrupt` for a version that this program does not know.
    pub fn computed_id(&self) -> ranking::Result<String> {
        let content = Content {
            version: self.version.try_into().unwrap_or_default(),
            parent: &self.parent,
            random: &self.random,
            seq: self.seq.unsigned_abs(),
            accepted_at_ms: self.accepted_at_ms,
            clock_ms: self.clock_ms,
            leaves: &self.leaves,
        };
        content.id()
    }
}

/// The times, by seq, of a partition's commits from `first_seq` to `last_seq`.
pub async fn times(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
    first_seq: i64,
    last_seq: i64,
) -> Result<BTreeMap<i64, Times>, DbErr> {
    let of_span = Entity::find()
        .filter(Column::Partition.eq(i32::from(partition)))
        .filter(Column::Seq.between(first_seq, last_seq));
    times_of(db, of_span).await
}

/// The times, by seq, of at most `limit` commits of a partition: the first ones after `seq`.
pub async fn times_after(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
    seq: i64,
    limit: u64,
) -> Result<BTreeMap<i64, Times>, DbErr> {
    times_of(db, select_after(partition, seq, limit)).await
}

/// The ids, by seq, of the commits of a partition that have one of these seqs.
pub async fn ids(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
    seqs: Vec<u64>,
) -> Result<BTreeMap<u64, String>, DbErr> {
    if seqs.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows: Vec<(i64, String)> = Entity::find()
        .select_only()
        .columns([Column::Seq, Column::Id])
        .filter(Column::Partition.eq(i32::from(partition)))
        .filter(Column::Seq.is_in(seqs.into_iter().map(|seq| seq as i64)))
        .into_tuple()
        .all(db)
        .await?;
    Ok(rows.into_iter().map(|(seq, id)| (seq.unsigned_abs(), id)).collect())
}

/// The times, by seq, of the commits of a partition that have one of these seqs.
pub async fn times_of_seqs(
    db: &impl ConnectionTrait,
    partition: i32,
    seqs: Vec<i64>,
) -> Result<BTreeMap<i64, Times>, DbErr> {
    let of_seqs =
        Entity::find().filter(Column::Partition.eq(partition)).filter(Column::Seq.is_in(seqs));
    times_of(db, of_seqs).await
}

async fn times_of(
    db: &impl ConnectionTrait,
    commits: Select<Entity>,
) -> Result<BTreeMap<i64, Times>, DbErr> {
    let rows: Vec<(i64, i64, i64)> = commits
        .select_only()
        .columns([Column::Seq, Column::AcceptedAtMs, Column::ClockMs])
        .into_tuple()
        .all(db)
        .await?;
    let times = |(seq, accepted_at_ms, clock_ms)| (seq, Times { accepted_at_ms, clock_ms });
    Ok(rows.into_iter().map(times).collect())
}

/// Ids and parents of the commits of a partition that have one of these seqs.
pub async fn links_of_seqs(
    db: &impl ConnectionTrait,
    partition: i32,
    seqs: Vec<i64>,
) -> Result<Vec<(String, String)>, DbErr> {
    Entity::find()
        .select_only()
        .columns([Column::Id, Column::Parent])
        .filter(Column::Partition.eq(partition))
        .filter(Column::Seq.is_in(seqs))
        .into_tuple()
        .all(db)
        .await
}

/// Counts events, by partition and seq, that their commits have and history no longer has.
pub async fn count_gone(
    db: &impl ConnectionTrait,
    gone: &BTreeMap<(i32, i64), u32>,
) -> Result<(), DbErr> {
    if gone.is_empty() {
        return Ok(());
    }
    let row = |(&(partition, seq), &gone): (&(i32, i64), &u32)| {
        (i64::from(partition), seq, i64::from(gone))
    };
    let rows = gone.iter().map(row);
    let column = ("commit", "gone");
    let sql = add_to_each(db.get_database_backend(), column, ["partition", "seq"], rows);
    db.execute_unprepared(&sql).await?;
    Ok(())
}

/// The commits of a partition after `seq`, at most `limit`, oldest first.
pub async fn page_after(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
    seq: i64,
    limit: u64,
) -> Result<Vec<Model>, DbErr> {
    select_after(partition, seq, limit).all(db).await
}

fn select_after(partition: PartitionNo, seq: i64, limit: u64) -> Select<Entity> {
    Entity::find()
        .filter(Column::Partition.eq(i32::from(partition)))
        .filter(Column::Seq.gt(seq))
        .order_by_asc(Column::Seq)
        .limit(limit)
}

#[cfg(test)]
mod tests {
    use ranking::commit::{Event, EventKind, Head, ROOT_COMMIT};
    use ranking::id::{BoardNo, MemberId};

    use super::*;
    use crate::history::score_event;

    fn removal(member: &str) -> Event {
        Event {
            board: BoardNo(3),
            generation: 1,
            member: MemberId::new(member).unwrap(),
            kind: EventKind::Removal,
            event_id: None,
            segments: vec![],
            metadata: None,
            origin: None,
        }
    }

    #[test]
    fn a_row_gives_the_id_and_the_leaves_of_its_commit() {
        let (commit, deployment, run_id) = (ROOT_COMMIT.into(), "d".into(), "r".into());
        let head =
            Head { seq: 4, commit, clock_ms: 1_700_000_000_001, epoch: 1, deployment, run_id };
        let events = vec![removal("ann"), removal("bob")];
        for events in [events, vec![]] {
            let commit = head.next([9; 32], 1_700_000_000_000, events);
            let row = Model::of_commit(PartitionNo(2), &commit, 0);
            assert_eq!(row.computed_id().as_deref(), Ok(row.id.as_str()));
            for altered in
                [Model { accepted_at_ms: 1, ..row.clone() }, Model { clock_ms: 1, ..row.clone() }]
            {
                assert_ne!(altered.computed_id().unwrap(), row.id);
            }
            assert!(Model { version: 9, ..row.clone() }.computed_id().is_err());
            for index in 0..commit.events.len() {
                let of_event = score_event::Model::of_event(PartitionNo(2), &commit, index);
                let leaf = of_event.leaf(row.version).unwrap();
                assert_eq!(leaf, row.leaves[index * 32..][..32]);
                let altered = score_event::Model { member: "eve".to_owned(), ..of_event };
                assert_ne!(altered.leaf(row.version).unwrap(), leaf);
            }
        }
    }
}
