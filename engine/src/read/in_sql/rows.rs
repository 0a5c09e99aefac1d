//! Entries that are rows of a table. The index of their order serves lists and counts.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use entity::error::Result;
use entity::sql::begin_view;
use entity::sql::dialect::{self, integer, pair};
use entity::standings::{sealed_entry, standing};
use ranking::id::MemberId;
use ranking::score::rank_key::{KeyLayout, RankKey};
use ranking::standings_id::StandingsId;
use ranking::store::read::RankedEntry;
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, EntityName, QueryResult,
    Value,
};

use super::samples::{SAMPLED_FROM, Sampler, Samples};
use super::{Bound, Part, SCORES_MAX};

/// The most members in one SELECT.
const MEMBERS_MAX: usize = 5000;

/// The most counts in one statement: SQLite allows 500 SELECTs in one.
const COUNTS_MAX: usize = 200;

/// The entries whose scores one SELECT of MariaDB tells.
const SCORED_ENTRIES: usize = 1000;

/// The entries of one of the standings in a table.
#[derive(Debug, Clone)]
pub(in crate::read) struct Rows {
    db: DatabaseConnection,
    /// The moment of which the rows are, if they are of one; its transaction is rolled back when
    /// the last clone is gone.
    view: Option<Arc<DatabaseTransaction>>,
    /// The table, and the condition for the rows on the first of the parameters.
    from: String,
    /// The values of those parameters.
    values: Vec<Value>,
    /// The way to samples of the rows, if there is one.
    sampler: Option<Sampler>,
    /// Samples of the rows as they are in the view.
    samples: Option<Arc<Samples>>,
}

impl Rows {
    /// The sealed standings of a number.
    pub(in crate::read) fn sealed(db: &DatabaseConnection, no: i64) -> Self {
        let table = sealed_entry::Entity.table_name();
        let from = format!(r#""{table}" WHERE "standings_no" = $1"#);
        Self::of(db, from, vec![no.into()])
    }

    /// All-time standings, and the way to their samples.
    pub(in crate::read) fn all_time(
        db: &DatabaseConnection,
        id: &StandingsId,
        sampler: Sampler,
    ) -> Self {
        let table = standing::Entity.table_name();
        let from = format!(r#""{table}" WHERE "board_no" = $1 AND "segment" = $2"#);
        let values = vec![id.board.0.into(), id.segment.clone().into()];
        Self { sampler: Some(sampler), ..Self::of(db, from, values) }
    }

    fn of(db: &DatabaseConnection, from: String, values: Vec<Value>) -> Self {
        Self { db: db.clone(), view: None, from, values, sampler: None, samples: None }
    }

    /// The same rows, as they are at one moment, whatever is written meanwhile.
    pub(super) async fn at_one_moment(&self) -> Result<Self> {
        if self.view.is_some() {
            return Ok(self.clone());
        }
        let (now, view) = self.in_view().await?;
        let samples = match &self.sampler {
            Some(sampler) => sampler.seen_in(&view).await?,
            None => None,
        };
        Ok(Self { sampler: self.sampler.clone(), samples, ..now })
    }

    /// The same rows as they are at one moment, without samples, and the view of that moment.
    pub(super) async fn in_view(&self) -> Result<(Self, Arc<DatabaseTransaction>)> {
        let view = Arc::new(begin_view(&self.db).await?);
        let now = Self {
            view: Some(view.clone()),
            ..Self::of(&self.db, self.from.clone(), self.values.clone())
        };
        Ok((now, view))
    }

    /// True if samples of the rows serve counts.
    pub(super) fn has_samples(&self) -> bool {
        self.samples.is_some()
    }

    /// The rows at one moment with samples, if some are kept; else the same ones.
    async fn sampled(&self) -> Result<Cow<'_, Self>> {
        match &self.sampler {
            Some(sampler) if self.view.is_none() && sampler.has_some() => {
                Ok(Cow::Owned(self.at_one_moment().await?))
            }
            _ => Ok(Cow::Borrowed(self)),
        }
    }

    /// Has samples taken for later reads, after a read passed so many entries without.
    fn note_passed(&self, passed: u64) {
        let is_far = passed >= SAMPLED_FROM && self.samples.is_none();
        if let Some(sampler) = self.sampler.as_ref().filter(|_| is_far) {
            // Without the view of this read, which would stay open.
            sampler.sample(Self::of(&self.db, self.from.clone(), self.values.clone()));
        }
    }

    /// The number of rows. O(rows), unless samples tell it.
    pub(in crate::read) async fn count(&self) -> Result<u64> {
        let now = self.sampled().await?;
        if let Some(size) = now.samples.as_ref().and_then(|samples| samples.size) {
            return Ok(size);
        }
        let count = integer(self.backend(), "COUNT(*)");
        let sql = format!(r#"SELECT {count} AS "count" FROM {}"#, self.from);
        let found = now.ask(sql, self.values.clone()).await;
        // A count may take longer than a statement may; a pass of many statements does not.
        let row = found.inspect_err(|_| now.note_passed(u64::MAX))?.pop();
        let count = row.map(|row| row.try_get::<i64>("", "count")).transpose()?;
        Ok(count.unwrap_or(0).unsigned_abs())
    }

    /// The keys of members, in the order asked. One SELECT for each 5,000.
    pub(super) async fn keys(&self, members: &[MemberId]) -> Result<Vec<Option<RankKey>>> {
        let mut found = HashMap::new();
        for chunk in members.chunks(MEMBERS_MAX) {
            let mut values = self.values.clone();
            values.extend(chunk.iter().map(|member| Value::from(member.as_str())));
            let places = self.values.len() + 1..=values.len();
            let places: Vec<String> = places.map(|place| format!("${place}")).collect();
            let sql = format!(
                r#"SELECT "member", "rank_key" FROM {} AND "member" IN ({})"#,
                self.from,
                places.join(", ")
            );
            for row in self.ask(sql, values).await? {
                let (member, key): (String, i64) =
                    (row.try_get("", "member")?, row.try_get("", "rank_key")?);
                found.insert(member, RankKey::from_i64(key)?);
            }
        }
        Ok(members.iter().map(|member| found.get(member.as_str()).copied()).collect())
    }

    /// The number of entries before each bound. Each scan starts at the previous bound, so entries
    /// are counted once, or at a sample behind that one.
    pub(super) async fn counts(&self, bounds: Vec<Bound>) -> Result<Vec<u64>> {
        let now = self.sampled().await?;
        let counts = now.scan(bounds).await.inspect_err(|_| now.note_passed(u64::MAX))?;
        now.note_passed(counts.iter().max().copied().unwrap_or(0));
        Ok(counts)
    }

    async fn scan(&self, bounds: Vec<Bound>) -> Result<Vec<u64>> {
        let mut order: Vec<usize> = (0..bounds.len()).collect();
        order.sort_unstable_by_key(|&index| &bounds[index]);
        let backend = self.backend();
        let all = integer(backend, "COUNT(*)");
        let mut counts = vec![0; bounds.len()];
        let (mut before, mut last): (u64, Option<&Bound>) = (0, None);
        for chunk in order.chunks(COUNTS_MAX) {
            let (mut sql, mut values): (Vec<String>, Vec<Value>) = (vec![], self.values.clone());
            let mut known = vec![];
            for (place, &index) in chunk.iter().enumerate() {
                let mut bound = |sign: &str, (key, member): &Bound| {
                    values.extend([(*key).into(), member.clone().into()]);
                    beyond(backend, sign, values.len())
                };
                let sample = self.samples.as_ref().and_then(|of| of.up_to(&bounds[index]));
                let sample = sample.filter(|(_, sample)| last.is_none_or(|last| last < sample));
                let start = sample.as_ref().map(|(_, sample)| sample).or(last);
                let from = start.map_or_else(String::new, |start| bound(">=", start));
                let to = bound("<", &bounds[index]);
                let place = integer(backend, &place.to_string());
                sql.push(format!(
                    r#"SELECT {place} AS "place", {all} AS "count" FROM {}{from}{to}"#,
                    self.from
                ));
                known.push(sample.map(|(position, _)| position));
                last = Some(&bounds[index]);
            }
            let mut found = vec![0_u64; chunk.len()];
            for row in self.ask(sql.join(" UNION ALL "), values).await? {
                let (place, count): (i64, i64) =
                    (row.try_get("", "place")?, row.try_get("", "count")?);
                found[place as usize] = count.unsigned_abs();
            }
            for ((&index, count), known) in chunk.iter().zip(found).zip(known) {
                before = known.unwrap_or(before) + count;
                counts[index] = before;
            }
        }
        Ok(counts)
    }

    /// Up to `limit` entries of a part. One SELECT.
    pub(super) async fn list(&self, part: Part<'_>, limit: usize) -> Result<Vec<RankedEntry>> {
        let now = match part {
            Part::At(position) if position >= SAMPLED_FROM => self.sampled().await?,
            _ => Cow::Borrowed(self),
        };
        let part = match (part, &now.samples) {
            (Part::At(position), Some(samples)) => match samples.at(position) {
                Some((known, entry)) => Part::From(entry, position - known),
                None => part,
            },
            _ => part,
        };
        let mut values = self.values.clone();
        let backend = self.backend();
        let mut bound = |sign: &str, place: &RankedEntry| {
            values.extend([place.key.to_i64().into(), place.member.to_string().into()]);
            beyond(backend, sign, values.len())
        };
        let (bound, skipped, order) = match part {
            Part::From(place, skipped) => (bound(">=", place), skipped, ""),
            Part::After(place) => (bound(">", place), 0, ""),
            Part::Before(place) => (bound("<", place), 0, " DESC"),
            Part::At(position) => (String::new(), position, ""),
            Part::Last => (String::new(), 0, " DESC"),
        };
        values.extend([(limit as i64).into(), (skipped as i64).into()]);
        let (limit, offset) = (values.len() - 1, values.len());
        let sql = format!(
            r#"SELECT "member", "rank_key" FROM {}{bound} ORDER BY "rank_key"{order}, "member"{order} LIMIT ${limit} OFFSET ${offset}"#,
            self.from
        );
        let mut entries = vec![];
        for row in now.ask(sql, values).await? {
            let (member, key): (String, i64) =
                (row.try_get("", "member")?, row.try_get("", "rank_key")?);
            entries.push(RankedEntry {
                key: RankKey::from_i64(key)?,
                member: MemberId::new(&member)?,
            });
        }
        if !entries.is_empty() {
            now.note_passed(skipped);
        }
        Ok(entries)
    }

    /// The first keys of distinct scores from a place on, best first, and true if no more follow.
    /// One SELECT, which looks up [`SCORES_MAX`] of them, however many entries have each.
    pub(super) async fn scores(
        &self,
        from: &RankedEntry,
        layout: KeyLayout,
    ) -> Result<(Vec<RankKey>, bool)> {
        if self.backend() == DbBackend::MySql {
            // It finds no place in an index by a value that the same statement has found.
            let entries = self.list(Part::From(from, 0), SCORED_ENTRIES).await?;
            let scores = entries.iter().map(|entry| layout.first_of_score(entry.key));
            let mut scores: Vec<RankKey> = scores.collect();
            scores.dedup();
            return Ok((scores, entries.len() < SCORED_ENTRIES));
        }
        let [start, width, limit] = [1, 2, 3].map(|place| self.values.len() + place);
        let next = |least: &str| {
            format!(r#"(SELECT MIN("rank_key") FROM {} AND "rank_key" >= {least})"#, self.from)
        };
        let first = next(&format!("${start}"));
        let behind = next(&format!(r#""walk"."key" - "walk"."key" % ${width} + ${width}"#));
        let one = integer(self.backend(), "1");
        let sql = format!(
            r#"WITH RECURSIVE "walk" ("place", "key") AS (SELECT {one}, {first} UNION ALL SELECT "walk"."place" + 1, {behind} FROM "walk" WHERE "walk"."key" IS NOT NULL AND "walk"."place" < ${limit}) SELECT "key" FROM "walk" WHERE "key" IS NOT NULL ORDER BY "place""#
        );
        let mut values = self.values.clone();
        let width = 1_i64 << layout.time_bits();
        values.extend([from.key.to_i64(), width, SCORES_MAX as i64].map(Value::from));
        let mut scores = vec![];
        for row in self.ask(sql, values).await? {
            scores.push(layout.first_of_score(RankKey::from_i64(row.try_get("", "key")?)?));
        }
        let is_end = scores.len() < SCORES_MAX;
        Ok((scores, is_end))
    }

    async fn ask(&self, sql: String, values: Vec<Value>) -> Result<Vec<QueryResult>> {
        let statement = dialect::statement(self.backend(), sql, values);
        Ok(match &self.view {
            Some(view) => view.query_all_raw(statement).await?,
            None => self.db.query_all_raw(statement).await?,
        })
    }

    fn backend(&self) -> DbBackend {
        self.db.get_database_backend()
    }
}

/// The condition that entries are beyond the last two of some values, a key and a member.
fn beyond(backend: DbBackend, sign: &str, values: usize) -> String {
    let (key, member) = (format!("${}", values - 1), format!("${values}"));
    format!(" AND {}", pair(backend, ["rank_key", "member"], sign, [&key, &member]))
}
