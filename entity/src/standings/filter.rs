//! Members of a board selected by their entries in "all".

use ranking::board::Board;
use ranking::id::MemberId;
use ranking::window::{Period, Window};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{Condition, QueryOrder, QuerySelect};

use super::standing::{Column, Entity};
use crate::member::search::starts_with;

/// The conditions that an entry meets; absent ones select all entries.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// The segment that the entry is in; empty for everyone.
    pub segment: String,
    /// The lowest raw score.
    pub min_score: Option<i64>,
    /// The highest raw score.
    pub max_score: Option<i64>,
    /// The beginning of the member's key.
    pub key_prefix: Option<String>,
    /// The members; at most some thousand.
    pub members: Option<Vec<MemberId>>,
    /// The first instant at which the entry was reached, in Unix milliseconds.
    pub reached_since_ms: Option<i64>,
    /// The first instant after it.
    pub reached_before_ms: Option<i64>,
}

impl Filter {
    /// Checks that a board's entries have what the filter looks at.
    ///
    /// # Errors
    /// `Invalid` for a time on a board whose entries keep none.
    pub fn check(&self, board: &Board) -> ranking::Result<()> {
        self.of(board).map(drop)
    }

    /// At most `limit` members, ordered by the bytes of their keys, after a key.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn page(
        &self,
        db: &impl ConnectionTrait,
        board: &Board,
        after: Option<&str>,
        limit: usize,
    ) -> crate::error::Result<Vec<String>> {
        let mut rows = Entity::find().select_only().column(Column::Member).filter(self.of(board)?);
        if let Some(key) = after {
            rows = rows.filter(Column::Member.gt(key));
        }
        let rows = rows.order_by_asc(Column::Member).limit(limit as u64);
        Ok(rows.into_tuple().all(db).await?)
    }

    /// The number of members.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn count(
        &self,
        db: &impl ConnectionTrait,
        board: &Board,
    ) -> crate::error::Result<u64> {
        Ok(Entity::find().filter(self.of(board)?).count(db).await?)
    }

    fn of(&self, board: &Board) -> ranking::Result<Condition> {
        let mut of = Condition::all()
            .add(Column::BoardNo.eq(board.no.0))
            .add(Column::Segment.eq(&self.segment))
            .add_option(self.min_score.map(|min| Column::Score.gte(min)))
            .add_option(self.max_score.map(|max| Column::Score.lte(max)));
        if let Some(prefix) = &self.key_prefix {
            of = of.add(starts_with(Column::Member, prefix));
        }
        if let Some(members) = &self.members {
            of = of.add(Column::Member.is_in(members.iter().map(MemberId::as_str)));
        }
        if self.reached_since_ms.is_some() || self.reached_before_ms.is_some() {
            of = of.add(self.reached(board)?);
        }
        Ok(of)
    }

    /// The time at which an entry was reached is a part of its rank key.
    fn reached(&self, board: &Board) -> ranking::Result<Condition> {
        let (rules, layout) = (&board.rules, board.rules.layout(Window::All));
        let first = rules.first_tick(&Period::all());
        let tick_ms = i64::from(rules.tick_ms);
        // An entry was reached at the instant at which its tick begins.
        let tick = |instant_ms: i64| rules.tick(instant_ms.saturating_add(tick_ms - 1)) - first;
        let since = self.reached_since_ms.map_or(i64::MIN, tick);
        let before = self.reached_before_ms.map_or(i64::MAX, tick);
        let fields = layout.time_fields(since..before).ok_or_else(|| {
            ranking::Error::Invalid(
                "entries of a board whose ties go by member keep no time: expected a filter without reachedSince and reachedBefore"
                    .into(),
            )
        })?;
        let field = || Expr::col(Column::RankKey).modulo(1_i64 << layout.time_bits());
        Ok(Condition::all().add(field().gte(fields.start)).add(field().lt(fields.end)))
    }
}
