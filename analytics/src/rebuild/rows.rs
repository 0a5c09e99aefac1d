//! SQL's rows of `standing`, held against what the history adds up to, and mended where they differ.
//!
//! Sums that SQL works out by itself are compared first; only where those differ are rows read. People play meanwhile: the rows of whoever did since
//! the history was read are left out of both sides, and held against that history and the events since. A row is mended while SQL's cursor is held, so that
//! no persister is between what we know and what we write: for who did not play since, the history that was read is all there is; for who did,
//! it is folded anew within the transaction. To wait until nobody plays would never end, and to rewrite what is right would take minutes.

mod look;

use std::collections::{BTreeSet, HashMap, HashSet};

use anyhow::{Context, Result, bail};
use entity::deployment::Deployment;
use entity::persist::insert_chunked;
use entity::{board, log_cursor, score_event, standing};
use ranking::board::Board;
use ranking::id::Partition;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ColumnTrait, Condition, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter,
    QueryOrder, QuerySelect, TransactionTrait,
};

use self::look::Moment;
use crate::fold::{Run, Sorted};

/// How many rows are read at once.
const ROWS_MAX: u64 = 20_000;

/// How many members one transaction mends: persisters wait for it.
const MENDED_MAX: usize = 500;

/// What was done about the rows of a partition.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mended {
    /// How many rows were read, as sums did not agree.
    pub compared: usize,
    /// How many members' rows were not as history says.
    pub members: usize,
}

/// The rows of one partition of a board.
struct Rows<'a> {
    deployment: &'a Deployment,
    board: &'a Board,
    partition: Partition,
    /// Up to here the history was read.
    seq: i64,
    /// What it adds up to.
    all: &'a Sorted,
}

/// Mends the rows of a board in one partition. `all` is what its history up to a seq gives in "all".
///
/// # Errors
/// What SQL says.
pub async fn mend(
    deployment: &Deployment,
    board: &Board,
    partition: Partition,
    seq: u64,
    all: &Sorted,
) -> Result<Mended> {
    let rows = Rows {
        deployment,
        board,
        partition,
        seq: seq as i64,
        all,
    };
    let Moment {
        later,
        wrong,
        sums: in_sql,
    } = rows.look().await?;
    let expected = rows.expected(&later);
    if in_sql == expected && wrong.is_empty() {
        return Ok(Mended::default());
    }
    let segments: BTreeSet<&String> = in_sql.keys().chain(expected.keys()).collect();
    let differ = segments
        .into_iter()
        .filter(|&segment| in_sql.get(segment) != expected.get(segment));
    let (mut suspects, mut compared) = (BTreeSet::new(), 0);
    for segment in differ {
        compared += rows.compare(segment, &mut suspects).await?;
    }
    suspects.retain(|member| !later.contains(member));
    suspects.extend(wrong);
    rows.mend(&suspects).await?;
    Ok(Mended {
        compared,
        members: suspects.len(),
    })
}

impl Rows<'_> {
    fn is_ours(&self) -> Condition {
        Condition::all()
            .add(standing::Column::BoardNo.eq(self.board.no.0))
            .add(standing::Column::Partition.eq(i32::from(self.partition.0)))
    }

    /// Who has another row of a segment than history says, as it seems while people play; how many rows there are.
    async fn compare(&self, segment: &str, suspects: &mut BTreeSet<String>) -> Result<usize> {
        let mut compared = 0;
        let run = self.all.runs().iter().find(|run| run.id.segment == segment);
        let rows = run.map_or(0..0, |run| run.rows.clone());
        let mut left: HashMap<&str, usize> = rows.map(|row| (self.all.member(row), row)).collect();
        let mut last: Option<String> = None;
        loop {
            use standing::Column::{Member, Segment};
            let after = last.take().map(|last| Member.gt(last));
            let page = standing::Entity::find()
                .filter(self.is_ours().add(Segment.eq(segment)).add_option(after))
                .order_by_asc(Member)
                .limit(ROWS_MAX)
                .all(&self.deployment.db)
                .await?;
            let Some(row) = page.last() else { break };
            last = Some(row.member.clone());
            compared += page.len();
            for row in page {
                let said = left.remove(row.member.as_str());
                let said = said.map(|said| (self.all.score(said), self.all.key(said).to_i64()));
                if said != Some((row.score, row.rank_key)) {
                    suspects.insert(row.member);
                }
            }
        }
        suspects.extend(left.into_keys().map(str::to_owned));
        Ok(compared)
    }

    async fn mend(&self, suspects: &BTreeSet<String>) -> Result<()> {
        if suspects.is_empty() {
            return Ok(());
        }
        let mut known: HashMap<&str, Vec<(&str, usize)>> = HashMap::new();
        for Run { id, rows, .. } in self.all.runs() {
            for row in rows.clone() {
                let member = self.all.member(row);
                if suspects.contains(member) {
                    let of_member = known.entry(member).or_default();
                    of_member.push((&id.segment, row));
                }
            }
        }
        let suspects: Vec<&String> = suspects.iter().collect();
        for members in suspects.chunks(MENDED_MAX) {
            let transaction = self.deployment.db.begin().await?;
            self.mend_in(&transaction, members, &known).await?;
            transaction.commit().await?;
        }
        Ok(())
    }

    async fn mend_in(
        &self,
        transaction: &DatabaseTransaction,
        members: &[&String],
        known: &HashMap<&str, Vec<(&str, usize)>>,
    ) -> Result<()> {
        let partition = i32::from(self.partition.0);
        // A write that changes nothing, for its lock: no persister moves the cursor meanwhile. It is the first: SQLite has one write lock.
        log_cursor::Entity::update_many()
            .col_expr(
                log_cursor::Column::Epoch,
                Expr::col(log_cursor::Column::Epoch),
            )
            .filter(log_cursor::Column::Partition.eq(partition))
            .exec(transaction)
            .await?;
        let cursor = log_cursor::Entity::find_by_id(partition)
            .one(transaction)
            .await?
            .context("SQL has no cursor of the partition")?;
        // Whoever deletes the board waits for this transaction before it takes the rows away.
        let living = board::living().filter(board::Column::No.eq(self.board.no.0));
        if living.one(transaction).await?.is_none() {
            bail!("the board was deleted meanwhile");
        }
        let named = score_event::Column::Member.is_in(members.iter().copied());
        let later: HashSet<String> = score_event::Entity::find()
            .select_only()
            .column(score_event::Column::Member)
            .distinct()
            .filter(score_event::Column::BoardNo.eq(self.board.no.0))
            .filter(named)
            .filter(score_event::Column::Partition.eq(partition))
            .filter(score_event::Column::Seq.gt(self.seq))
            .into_tuple::<String>()
            .all(transaction)
            .await?
            .into_iter()
            .collect();
        let mut rows = vec![];
        for &member in members {
            if later.contains(member) {
                let (board, seq) = (self.board, cursor.seq.unsigned_abs());
                let folded =
                    standing::anew(transaction, self.partition, board, member, seq).await?;
                rows.extend(folded.into_iter().map(IntoActiveModel::into_active_model));
                continue;
            }
            for &(segment, row) in known.get(member.as_str()).into_iter().flatten() {
                rows.push(self.row(segment, row).into_active_model());
            }
        }
        let named = standing::Column::Member.is_in(members.iter().copied());
        standing::Entity::delete_many()
            .filter(self.is_ours().add(named))
            .exec(transaction)
            .await?;
        insert_chunked::<standing::Entity, _>(transaction, rows, Some(standing::replace())).await?;
        Ok(())
    }

    fn row(&self, segment: &str, row: usize) -> standing::Model {
        standing::Model {
            board_no: self.board.no.0,
            segment: segment.to_owned(),
            member: self.all.member(row).to_owned(),
            score: self.all.score(row),
            rank_key: self.all.key(row).to_i64(),
            partition: self.partition.0.into(),
            seq: self.all.seq(row),
        }
    }
}
