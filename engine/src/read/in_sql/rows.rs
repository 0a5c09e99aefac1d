//! Entries that are rows of a table. The index of their order serves lists and counts.

use std::collections::HashMap;
use std::sync::Arc;

use entity::error::Result;
use entity::sql::dialect::{self, integer, pair};
use entity::standings::{sealed_entry, standing};
use ranking::id::MemberId;
use ranking::score::rank_key::RankKey;
use ranking::standings_id::StandingsId;
use ranking::store::read::RankedEntry;
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, EntityName, QueryResult,
    Value,
};

use super::{Bound, Part};
use crate::deployment::view;

/// The most members in one SELECT.
const MEMBERS_MAX: usize = 5000;

/// The most counts in one statement: SQLite allows 500 SELECTs in one.
const COUNTS_MAX: usize = 200;

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
}

impl Rows {
    /// The sealed standings of a number.
    pub(in crate::read) fn sealed(db: &DatabaseConnection, no: i64) -> Self {
        let table = sealed_entry::Entity.table_name();
        let from = format!(r#""{table}" WHERE "standings_no" = $1"#);
        Self { db: db.clone(), view: None, from, values: vec![no.into()] }
    }

    /// All-time standings.
    pub(in crate::read) fn all_time(db: &DatabaseConnection, id: &StandingsId) -> Self {
        let table = standing::Entity.table_name();
        let from = format!(r#""{table}" WHERE "board_no" = $1 AND "segment" = $2"#);
        let values = vec![id.board.0.into(), id.segment.clone().into()];
        Self { db: db.clone(), view: None, from, values }
    }

    /// The same rows, as they are at one moment, whatever is written meanwhile.
    pub(super) async fn at_one_moment(&self) -> Result<Self> {
        let view = match &self.view {
            Some(view) => view.clone(),
            None => Arc::new(view(&self.db).await?),
        };
        Ok(Self { view: Some(view), ..self.clone() })
    }

    /// The number of rows. O(rows).
    pub(in crate::read) async fn count(&self) -> Result<u64> {
        let count = integer(self.backend(), "COUNT(*)");
        let sql = format!(r#"SELECT {count} AS "count" FROM {}"#, self.from);
        let row = self.ask(sql, self.values.clone()).await?.pop();
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
    /// are counted once.
    pub(super) async fn counts(&self, bounds: Vec<Bound>) -> Result<Vec<u64>> {
        let mut order: Vec<usize> = (0..bounds.len()).collect();
        order.sort_unstable_by_key(|&index| &bounds[index]);
        let backend = self.backend();
        let all = integer(backend, "COUNT(*)");
        let mut counts = vec![0; bounds.len()];
        let (mut before, mut last): (u64, Option<usize>) = (0, None);
        for chunk in order.chunks(COUNTS_MAX) {
            let (mut sql, mut values): (Vec<String>, Vec<Value>) = (vec![], self.values.clone());
            for (place, &index) in chunk.iter().enumerate() {
                let mut bound = |sign: &str, index: usize| {
                    let (key, member) = bounds[index].clone();
                    values.extend([key.into(), member.into()]);
                    beyond(backend, sign, values.len())
                };
                let from = last.map_or_else(String::new, |last| bound(">=", last));
                let to = bound("<", index);
                let place = integer(backend, &place.to_string());
                sql.push(format!(
                    r#"SELECT {place} AS "place", {all} AS "count" FROM {}{from}{to}"#,
                    self.from
                ));
                last = Some(index);
            }
            let mut found = vec![0_u64; chunk.len()];
            for row in self.ask(sql.join(" UNION ALL "), values).await? {
                let (place, count): (i64, i64) =
                    (row.try_get("", "place")?, row.try_get("", "count")?);
                found[place as usize] = count.unsigned_abs();
            }
            for (&index, count) in chunk.iter().zip(found) {
                before += count;
                counts[index] = before;
            }
        }
        Ok(counts)
    }

    /// Up to `limit` entries of a part. One SELECT.
    pub(super) async fn list(&self, part: Part<'_>, limit: usize) -> Result<Vec<RankedEntry>> {
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
        for row in self.ask(sql, values).await? {
            let (member, key): (String, i64) =
                (row.try_get("", "member")?, row.try_get("", "rank_key")?);
            entries.push(RankedEntry {
                key: RankKey::from_i64(key)?,
                member: MemberId::new(&member)?,
            });
        }
        Ok(entries)
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
