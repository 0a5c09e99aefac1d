//! Compares a window with its rows in SQL: all-time standings, and sealed ones.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use engine::integrity::look::{Location, StoredValues};
use entity::sql::blocks::Columns;
use entity::sql::dialect::statement;
use entity::standings::{sealed_entry, sealed_period};
use futures::StreamExt;
use ranking::standings_id::StandingsId;
use ranking::window::Window;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, Value};

use super::PartitionDiff;
use crate::diff::findings::Findings;
use crate::diff::rows::{Rows, Walk};
use crate::diff::second_look::Suspects;
use crate::diff::sums::Sum;
use crate::frame::multiset_hash::MultisetHash;

impl PartitionDiff<'_> {
    /// The sum of the rows of `standing`, if they are exactly those that history folds to.
    async fn same_standing(&self, rows: &Rows) -> Result<Option<Sum>> {
        let mut balance = MultisetHash::new();
        for (segment, member, (key, score)) in rows.entries() {
            balance.add(segment, member, &[Some(score), Some(key)]);
        }
        let mut sum = Sum::default();
        let mut there = self.standing().read(&self.partition.db);
        while let Some(block) = there.next().await {
            let block = block.context("the standings in SQL cannot be read")?;
            sum.add(&block)?;
            for (segment, member, held) in block.rows(["score", "rank_key"])?.iter() {
                balance.take(segment, member, &held);
            }
            self.job.advance(block.len());
        }
        Ok(balance.is_zero().then_some(sum))
    }

    fn standing(&self) -> Columns {
        Columns::of_standing(self.partition.no, Some(self.board.no))
    }

    /// Compares the rows of `standing`. Returns the sum of the rows that it read.
    pub(crate) async fn compare_standing(
        &self,
        rows: &Rows,
        suspects: &mut Suspects<'_>,
        findings: &mut Findings,
    ) -> Result<Sum> {
        let board = self.board;
        self.job.stage(&format!("{}: comparing SQL", self.row.slug), rows.len());
        if let Some(sum) = self.same_standing(rows).await? {
            return Ok(sum);
        }
        let location =
            |segment: &str| Location::Entry(StandingsId::all_time(board, segment.to_owned()));
        let mut awaited = rows.awaited();
        let mut sum = Sum::default();
        let mut there = self.standing().read(&self.partition.db);
        while let Some(block) = there.next().await {
            let block = block.context("the standings in SQL cannot be read")?;
            sum.add(&block)?;
            for (segment, member, [key, score]) in block.rows(["rank_key", "score"])?.iter() {
                let expected = awaited.mark_found(segment, member).map(|place| rows.held(place));
                let there = key.zip(score);
                let is_held = there.is_some_and(|(key, score)| {
                    matches!(StoredValues::of_row(board, score, key), StoredValues::Key(..))
                });
                if !is_held || there != expected {
                    suspects.add(member.as_bytes(), location(segment));
                }
            }
            suspects.look_again_if_many(findings).await?;
        }
        for (segment, member) in awaited.missing() {
            suspects.add(member.as_bytes(), location(segment));
            suspects.look_again_if_many(findings).await?;
        }
        Ok(sum)
    }

    /// A window's sealed standings, by number.
    async fn sealed_ids(
        &self,
        window: Window,
        before_ms: i64,
    ) -> Result<BTreeMap<i64, StandingsId>> {
        use sealed_period::Column::{BoardNo, Generation, StartMs, Window as Name};
        let board = self.board.no;
        let generation = self.board.generation_of(window);
        let numbered = sealed_period::Entity::find()
            .filter(BoardNo.eq(board.0))
            .filter(Generation.eq(generation as i32))
            .filter(Name.eq(window.to_string()))
            .filter(StartMs.lt(before_ms))
            .all(&self.partition.db)
            .await?;
        let id = |row: sealed_period::Model| {
            let (segment, period) = (row.segment, row.label);
            (row.no, StandingsId { board, generation, segment, window, period })
        };
        Ok(numbered.into_iter().map(id).collect())
    }

    /// Compares a window's sealed standings.
    pub(crate) async fn compare_sealed(
        &self,
        window: Window,
        rows: &Rows,
        suspects: &mut Suspects<'_>,
        findings: &mut Findings,
    ) -> Result<()> {
        let (board, db) = (self.board, &self.partition.db);
        let (generation, before_ms) =
            (board.generation_of(window), board.sealed(window).sealed_before_ms);
        let mut left = BTreeSet::new();
        for id in rows.lists() {
            let period = window.period_named(&id.period, &board.rules.calendar)?;
            if period.present_from_ms < before_ms {
                left.insert(id.clone());
            }
        }
        let ids = self.sealed_ids(window, before_ms).await?;
        let sql = r#"SELECT * FROM "sealed_entry" WHERE "partition" = $1 AND "standings_no" IN (SELECT "no" FROM "sealed_period"
            WHERE "board_no" = $2 AND "generation" = $3 AND "window" = $4 AND "start_ms" < $5) ORDER BY "standings_no", "rank_key", "member""#;
        let values: [Value; 5] = [
            i32::from(self.partition.no).into(),
            board.no.0.into(),
            (generation as i32).into(),
            window.to_string().into(),
            before_ms.into(),
        ];
        let asked = statement(db.get_database_backend(), sql, values);
        let mut there = sealed_entry::Entity::find().from_raw_sql(asked).stream(db).await?;
        let mut present: Option<(i64, &StandingsId, Walk<'_>)> = None;
        while let Some(row) = there.next().await {
            let row = row.context("sealed standings cannot be read")?;
            let Some(id) = ids.get(&row.standings_no) else {
                continue;
            };
            if present.as_ref().is_none_or(|(no, ..)| *no != row.standings_no) {
                if let Some((_, id, walk)) = present.take() {
                    walk.end(|member| {
                        suspects.add(member.as_bytes(), Location::Sealed(id.clone()))
                    });
                    suspects.look_again_if_many(findings).await?;
                }
                left.remove(id);
                present = Some((row.standings_no, id, rows.walk(id)));
            }
            let Some((_, id, walk)) = &mut present else {
                continue;
            };
            let mut lost =
                |member: &str| suspects.add(member.as_bytes(), Location::Sealed((*id).clone()));
            if !walk.meets(row.rank_key, Some(row.score), row.member.as_bytes(), &mut lost) {
                suspects.add(row.member.as_bytes(), Location::Sealed((*id).clone()));
            }
        }
        if let Some((_, id, walk)) = present {
            walk.end(|member| suspects.add(member.as_bytes(), Location::Sealed(id.clone())));
        }
        for id in left {
            rows.walk(&id)
                .end(|member| suspects.add(member.as_bytes(), Location::Sealed(id.clone())));
            suspects.look_again_if_many(findings).await?;
        }
        Ok(())
    }
}
