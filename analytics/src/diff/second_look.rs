//! The second look at what did not agree at first: one member's keys and the head at one moment, its history up to that head folded anew.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::{Result, ensure};
use entity::deployment::Deployment;
use entity::recovery::settle;
use entity::{archive_mark, score_event, standing};
use ranking::board::Board;
use ranking::id::{MemberId, Partition};
use ranking::key::StandingsId;
use ranking::rank_key::RankKey;
use ranking::replay::Replay;
use ranking::roll::{Reach, Rolls};
use sea_orm::{
    AccessMode, ColumnTrait, Condition, DbBackend, EntityTrait, IsolationLevel, QueryFilter,
    TransactionTrait,
};

use super::{Place, is_sealed};
use crate::finding::{Finding, Held};
use crate::history::{archived_with, keys, settle_to};

/// Looks at places of one member in one partition again, at one moment, and folds its history up to that moment.
pub(super) async fn look_again(
    deployment: &Deployment,
    board: &Board,
    archived: &Archived,
    places: &[Place],
) -> Result<Vec<Finding>> {
    let Some((partition, member, _)) = places.first() else {
        return Ok(vec![]);
    };
    let ids: Vec<&StandingsId> = places.iter().map(|(_, _, id)| id).collect();
    settle(deployment, *partition).await?;
    let keys: Vec<String> = ids
        .iter()
        .map(|id| deployment.store.keys().standings(*partition, id))
        .collect();
    let (head, marks, doubles) = deployment
        .store
        .probe(*partition, board.no, &keys, member.as_bytes())
        .await?;
    let rolls = Rolls {
        marks,
        now_ms: deployment.clock.now_ms(),
    };
    settle_to(deployment, *partition, &head).await?;
    // What was sealed meanwhile is not compared; a row says so before Redis does.
    let later = entity::board::Entity::find_by_id(board.no.0)
        .one(&deployment.db)
        .await?;
    let later = later.map_or_else(|| Ok(board.clone()), |row| row.to_ranking())?;
    ensure!(
        later.layouts == board.layouts,
        "board {} moved to another number of shards meanwhile; compare it again",
        board.no
    );
    let in_sql = InSql::read(deployment, board, archived, *partition, member).await?;
    let then = in_sql.standings(board, (*partition, head.seq), &rolls)?;
    let now = in_sql.standings(board, (*partition, u64::MAX), &rolls)?;
    // Only in its own partition is a member's history fenced by the head that was read.
    let is_home = MemberId::new(member)
        .is_ok_and(|member| deployment.store.partitions().of_member(board, &member) == *partition);
    let finding = |(id, double): (&StandingsId, Option<f64>)| {
        let redis = double.map(|double| Held::of_double(board, id.window, double));
        if !is_home {
            return Finding::at(id, member, None, None, redis, rolls.now_ms);
        }
        let (mut then, now) = (then.get(id).copied(), now.get(id).copied());
        if redis.is_none() && is_on_its_way(board, id, &rolls) {
            then = None;
        }
        // SQL's row is right when it is what all of SQL's history adds up to.
        let row = in_sql.rows.get(&id.segment).copied();
        let sql = if row == now { then } else { row };
        Finding::at(id, member, then, sql, redis, rolls.now_ms)
    };
    let looked_at = ids.into_iter().zip(doubles);
    let looked_at = looked_at.filter(|(id, _)| !is_sealed(&later, id));
    Ok(looked_at.filter_map(finding).collect())
}

/// Whether a standings is being prepared for the period that comes next.
fn is_on_its_way(board: &Board, id: &StandingsId, rolls: &Rolls) -> bool {
    let zone = &board.rules.zone;
    let period = id.window.period_named(&id.period, zone);
    let reach = period.and_then(|period| rolls.reach(id, &period, zone));
    id.window.rolling().is_some() && reach == Ok(Reach::InPart)
}

/// The archived events of members that are looked at again.
pub(super) struct Archived {
    marks: BTreeMap<Partition, archive_mark::Model>,
    by_member: HashMap<String, Vec<score_event::Model>>,
}

impl Archived {
    /// Those of a board, as far as marks say.
    pub(super) async fn of(
        deployment: &Deployment,
        board: &Board,
        marks: BTreeMap<Partition, archive_mark::Model>,
        places: &[Place],
    ) -> Result<Self> {
        let members: BTreeSet<&String> = places.iter().map(|(_, member, _)| member).collect();
        let members: Vec<String> = members.into_iter().cloned().collect();
        let mut by_member: HashMap<String, Vec<score_event::Model>> = HashMap::new();
        if !members.is_empty() {
            let members = keys(vec![("member", members)])?;
            for row in archived_with(deployment, board, &marks, &members).await? {
                by_member.entry(row.member.clone()).or_default().push(row);
            }
        }
        for rows in by_member.values_mut() {
            rows.sort_unstable_by_key(|row| (row.seq, row.event_index));
        }
        Ok(Self { marks, by_member })
    }

    /// How far a partition is archived.
    fn seq(&self, partition: Partition) -> i64 {
        self.marks
            .get(&partition)
            .map_or(0, |mark| mark.archived_seq)
    }
}

/// What history and the table of standings have of a member on a board, at one moment.
struct InSql {
    events: Vec<score_event::Model>,
    /// Its rows of `standing`, by segment.
    rows: HashMap<String, Held>,
}

impl InSql {
    async fn read(
        deployment: &Deployment,
        board: &Board,
        archived: &Archived,
        partition: Partition,
        member: &str,
    ) -> Result<Self> {
        let view = match deployment.db.get_database_backend() {
            DbBackend::Postgres => {
                deployment
                    .db
                    .begin_with_config(
                        Some(IsolationLevel::RepeatableRead),
                        Some(AccessMode::ReadOnly),
                    )
                    .await?
            }
            _ => deployment.db.begin().await?,
        };
        let mark = archive_mark::of(&view, board.no, partition).await?;
        let later = score_event::history_of(board, member)
            .filter(score_event::Column::Seq.gt(mark.archived_seq))
            .all(&view)
            .await?;
        let of_member = Condition::all()
            .add(standing::Column::BoardNo.eq(board.no.0))
            .add(standing::Column::Member.eq(member));
        let rows = standing::Entity::find()
            .filter(of_member)
            .all(&view)
            .await?;
        view.rollback().await?;
        ensure!(
            mark.archived_seq == archived.seq(partition),
            "the board was archived meanwhile; compare again"
        );
        let mut events = archived.by_member.get(member).cloned().unwrap_or_default();
        events.extend(later);
        let held =
            |row: standing::Model| (row.segment, Held::of_row(board, row.score, row.rank_key));
        Ok(Self {
            events,
            rows: rows.into_iter().map(held).collect(),
        })
    }

    /// What the events up to a seq of the member's partition give the member, and all that others have, from before the board had its number of shards.
    fn standings(
        &self,
        board: &Board,
        (partition, seq): (Partition, u64),
        rolls: &Rolls,
    ) -> Result<HashMap<StandingsId, Held>> {
        let is_before = |row: &&score_event::Model| {
            row.partition != i32::from(partition.0) || row.seq as u64 <= seq
        };
        let events = || self.events.iter().filter(is_before);
        let windows = board.added.iter();
        let sealed =
            windows.map(|(&window, added)| ((board.no, window), added.sealed.sealing_before_ms));
        let voided = events().filter_map(score_event::Model::voids).collect();
        let replay = Replay::without(voided, rolls.now_ms).skipping_before(sealed);
        let mut replay = replay.rolled(board.no, rolls.clone());
        for row in events() {
            replay.apply(board, row.place()?, &row.to_ranking()?)?;
        }
        let held = |(id, entries): (StandingsId, Vec<(MemberId, RankKey)>)| {
            let (_, key) = entries.first()?;
            let score = board.rules.layout(id.window).decode(*key).0;
            Some((id, Held::Key(*key, score)))
        };
        Ok(replay.entries()?.into_iter().filter_map(held).collect())
    }
}
