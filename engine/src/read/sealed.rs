//! Reading sealed standings: sizes, keys, positions and pages, with the types of
//! [`ranking::store::read`].
//!
//! The order is the same as in Redis: rank key, then member bytes. The index of that order serves
//! the counts of ranks. Every list has a limit.

use ranking::id::MemberId;
use ranking::rank_key::RankKey;
use ranking::store::periods::ListedPeriod;
use ranking::store::read::around::Neighborhood;
use ranking::store::read::{Range, RankedEntry, Standings};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DatabaseConnection, EntityTrait, PaginatorTrait,
    QueryFilter, QueryOrder, QuerySelect, Statement, Value,
};

use entity::error::Result;
use entity::standings::{sealed_entry, sealed_period};

/// The most members in one SELECT.
const MEMBERS_MAX: usize = 5000;

/// The most counts in one statement: SQLite allows 500 SELECTs in one.
const COUNTS_MAX: usize = 200;

/// The most reads of a neighborhood while corrections move its center.
const MOVED_MAX: usize = 8;

/// The sealed entries of one of the standings.
#[derive(Debug, Clone, Copy)]
pub struct SealedStandings<'a> {
    db: &'a DatabaseConnection,
    no: i64,
    size: u64,
}

/// A bound below which entries are counted.
enum Bound<'a> {
    /// Entries with a smaller key.
    Key(RankKey),
    /// Entries before an entry.
    Place(&'a RankedEntry),
}

/// Finds sealed standings; `None` if no member ever had an entry there.
pub async fn find<'a>(
    db: &'a DatabaseConnection,
    standings: &Standings,
) -> Result<Option<SealedStandings<'a>>> {
    let found: Option<(i64, i64)> = sealed_period::Entity::find()
        .select_only()
        .columns([sealed_period::Column::No, sealed_period::Column::Size])
        .filter(sealed_period::of_list(&standings.id))
        .filter(sealed_period::Column::StartMs.eq(standings.period.present_from_ms))
        .into_tuple()
        .one(db)
        .await?;
    Ok(found.map(|(no, size)| SealedStandings { db, no, size: size.unsigned_abs() }))
}

/// True of the rows of `sealed_period` whose standings have entries; an index answers it.
const HAS_ENTRIES: &str =
    r#"EXISTS (SELECT 1 FROM "sealed_entry" WHERE "standings_no" = "sealed_period"."no")"#;

/// The number of sealed periods that have entries and start before `before_ms`, of the same board,
/// segment and window as `standings`.
pub async fn count_periods(
    db: &DatabaseConnection,
    standings: &Standings,
    before_ms: i64,
) -> Result<u64> {
    let of_list = sealed_period::of_list(&standings.id);
    let count = sealed_period::Entity::find()
        .filter(of_list.add(sealed_period::Column::StartMs.lt(before_ms)))
        .filter(sea_orm::sea_query::Expr::cust(HAS_ENTRIES))
        .count(db);
    Ok(count.await?)
}

/// Up to `limit` sealed periods that have entries and start before `before_ms`, of the same board,
/// segment and window as `standings`. They have the form of [`ranking::store::Store::periods`].
pub async fn periods(
    db: &DatabaseConnection,
    standings: &Standings,
    range: Range,
    before_ms: i64,
    limit: usize,
) -> Result<Vec<ListedPeriod>> {
    use sealed_period::Column::StartMs;
    let of_list = sealed_period::of_list(&standings.id).add(StartMs.lt(before_ms));
    let select = match range {
        Range::Before(ms) => {
            sealed_period::Entity::find().filter(StartMs.lt(ms)).order_by_desc(StartMs)
        }
        Range::After(ms) => {
            sealed_period::Entity::find().filter(StartMs.gt(ms)).order_by_asc(StartMs)
        }
    };
    let rows = select
        .filter(of_list)
        .filter(sea_orm::sea_query::Expr::cust(HAS_ENTRIES))
        .limit(limit as u64)
        .all(db)
        .await?;
    let began = |row: sealed_period::Model| ListedPeriod {
        present_from_ms: row.start_ms,
        label: row.label,
    };
    Ok(rows.into_iter().map(began).collect())
}

impl SealedStandings<'_> {
    /// The number of entries, which their writers keep.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The keys of members, in the order asked. One SELECT for each 5,000.
    pub async fn rank_keys(&self, members: &[MemberId]) -> Result<Vec<Option<RankKey>>> {
        use sealed_entry::Column::{Member, RankKey as Key, StandingsNo};
        let mut found = std::collections::HashMap::new();
        for chunk in members.chunks(MEMBERS_MAX) {
            let of_chunk = Condition::all()
                .add(StandingsNo.eq(self.no))
                .add(Member.is_in(chunk.iter().map(MemberId::as_str)));
            let rows: Vec<(String, i64)> = sealed_entry::Entity::find()
                .select_only()
                .columns([Member, Key])
                .filter(of_chunk)
                .into_tuple()
                .all(self.db)
                .await?;
            for (member, key) in rows {
                found.insert(member, RankKey::from_i64(key)?);
            }
        }
        let key = |member: &MemberId| found.get(member.as_str()).copied();
        Ok(members.iter().map(key).collect())
    }

    /// The entries and positions of members, in the order of `members`; `None` for members without
    /// an entry.
    pub async fn find(&self, members: &[MemberId]) -> Result<Vec<Option<(RankedEntry, u64)>>> {
        let keys = self.rank_keys(members).await?.into_iter().zip(members);
        let entries: Vec<Option<RankedEntry>> = keys
            .map(|(key, member)| key.map(|key| RankedEntry { key, member: member.clone() }))
            .collect();
        let there: Vec<RankedEntry> = entries.iter().flatten().cloned().collect();
        let mut positions = self.positions(&there).await?.into_iter();
        Ok(entries.into_iter().map(|entry| Some((entry?, positions.next()?))).collect())
    }

    /// The position of each of these entries: the number of entries before it. One statement for
    /// each 200; together they scan the entries before the last one once.
    pub async fn positions(&self, entries: &[RankedEntry]) -> Result<Vec<u64>> {
        self.counts(entries.iter().map(Bound::Place).collect()).await
    }

    /// The number of entries with a smaller key than each of these; cost as [`Self::positions`].
    pub async fn counts_below(&self, keys: &[RankKey]) -> Result<Vec<u64>> {
        self.counts(keys.iter().copied().map(Bound::Key).collect()).await
    }

    /// Up to `limit` entries from `from` on, in order, and the position of the first. `from` is
    /// included if it is still there.
    pub async fn forward(
        &self,
        from: &RankedEntry,
        limit: usize,
    ) -> Result<(u64, Vec<RankedEntry>)> {
        let position = self.positions(std::slice::from_ref(from)).await?[0];
        let sql = r#"("rank_key", "member") >= ($2, $3) ORDER BY "rank_key", "member" LIMIT $4"#;
        let entries = self.list(sql, place_values(from), limit).await?;
        Ok((position, entries))
    }

    /// Up to `limit` entries after `last`, or the first ones, in order. Counts nothing.
    pub async fn page_after(
        &self,
        last: Option<&RankedEntry>,
        limit: usize,
    ) -> Result<Vec<RankedEntry>> {
        let Some(last) = last else {
            return self.forward_from(0, limit).await;
        };
        let sql = r#"("rank_key", "member") > ($2, $3) ORDER BY "rank_key", "member" LIMIT $4"#;
        self.list(sql, place_values(last), limit).await
    }

    /// Up to `limit` entries from a position on, in order. O(position).
    pub async fn forward_from(&self, position: u64, limit: usize) -> Result<Vec<RankedEntry>> {
        let sql = r#"TRUE ORDER BY "rank_key", "member" LIMIT $3 OFFSET $2"#;
        self.list(sql, vec![(position as i64).into()], limit).await
    }

    /// The pages of up to some entries from some positions on, in the order of `pages`. One
    /// statement for each; together they scan the entries before the last one once.
    pub async fn pages_from(&self, pages: &[(u64, usize)]) -> Result<Vec<Vec<RankedEntry>>> {
        let mut order: Vec<usize> = (0..pages.len()).collect();
        order.sort_unstable_by_key(|&page| pages[page]);
        let mut found = vec![vec![]; pages.len()];
        let mut last: Option<(u64, RankedEntry)> = None;
        for page in order {
            let (position, limit) = pages[page];
            found[page] = match &last {
                None => self.forward_from(position, limit).await?,
                Some((known, entry)) => {
                    let sql = r#"("rank_key", "member") >= ($2, $3) ORDER BY "rank_key", "member" LIMIT $5 OFFSET $4"#;
                    let mut values = place_values(entry);
                    values.push(((position - known) as i64).into());
                    self.list(sql, values, limit).await?
                }
            };
            last = found[page].first().map(|first| (position, first.clone())).or(last);
        }
        Ok(found)
    }

    /// Up to `limit` entries before `before`, or the last ones, in order, and the position of
    /// `before`.
    pub async fn backward(
        &self,
        before: Option<&RankedEntry>,
        limit: usize,
    ) -> Result<(u64, Vec<RankedEntry>)> {
        let (position, mut entries) = match before {
            Some(place) => {
                let sql = r#"("rank_key", "member") < ($2, $3) ORDER BY "rank_key" DESC, "member" DESC LIMIT $4"#;
                let position = self.positions(std::slice::from_ref(place)).await?[0];
                (position, self.list(sql, place_values(place), limit).await?)
            }
            None => {
                let sql = r#"TRUE ORDER BY "rank_key" DESC, "member" DESC LIMIT $2"#;
                (self.size(), self.list(sql, vec![], limit).await?)
            }
        };
        entries.reverse();
        Ok((position, entries))
    }

    /// The entries around a member, including its own, and the position of the first; `None` if the
    /// member has no entry.
    ///
    /// # Errors
    /// `Unavailable` if corrections keep moving the member; `Corrupt` if a row holds an invalid
    /// key.
    pub async fn neighbors(
        &self,
        member: &MemberId,
        above: usize,
        below: usize,
    ) -> Result<Option<(u64, Vec<RankedEntry>)>> {
        for _ in 0..MOVED_MAX {
            let key = self.rank_keys(std::slice::from_ref(member)).await?[0];
            let Some(key) = key else { return Ok(None) };
            let center = RankedEntry { key, member: member.clone() };
            let (position, mut entries) = self.backward(Some(&center), above).await?;
            let (_, mut rest) = self.forward(&center, below + 1).await?;
            if rest.first() == Some(&center) {
                let first = position.saturating_sub(entries.len() as u64);
                entries.append(&mut rest);
                return Ok(Some((first, entries)));
            }
        }
        Err(ranking::Error::Unavailable(format!(
            "{member} moves faster than its neighbors can be read; try again"
        ))
        .into())
    }

    /// As [`Self::neighbors`] for each of these members, in their order.
    ///
    /// # Errors
    /// As [`Self::neighbors`].
    pub async fn neighborhoods(
        &self,
        members: &[MemberId],
        above: usize,
        below: usize,
    ) -> Result<Vec<Neighborhood>> {
        if (above, below) == (0, 0) {
            let alone = |(entry, position): (RankedEntry, u64)| (position, vec![entry]);
            return Ok(self
                .find(members)
                .await?
                .into_iter()
                .map(|found| found.map(alone))
                .collect());
        }
        let mut found = Vec::with_capacity(members.len());
        for member in members {
            found.push(self.neighbors(member, above, below).await?);
        }
        Ok(found)
    }

    /// The number of entries before each bound. Each scan starts at the previous bound, so entries
    /// are counted once.
    async fn counts(&self, bounds: Vec<Bound<'_>>) -> Result<Vec<u64>> {
        let first = |bound: &Bound<'_>| match bound {
            Bound::Key(key) => (key.to_i64(), String::new()),
            Bound::Place(place) => (place.key.to_i64(), place.member.to_string()),
        };
        // The empty text sorts before every member, so this bound has only entries with a smaller
        // key before it.
        let bounds: Vec<(i64, String)> = bounds.iter().map(first).collect();
        let mut order: Vec<usize> = (0..bounds.len()).collect();
        order.sort_unstable_by_key(|&index| &bounds[index]);
        let mut counts = vec![0; bounds.len()];
        let (mut before, mut last): (u64, Option<usize>) = (0, None);
        for chunk in order.chunks(COUNTS_MAX) {
            let (mut sql, mut values): (Vec<String>, Vec<Value>) = (vec![], vec![self.no.into()]);
            for (place, &index) in chunk.iter().enumerate() {
                let mut bound = |index: usize| {
                    let (key, member) = bounds[index].clone();
                    values.extend([key.into(), member.into()]);
                    format!("(${}, ${})", values.len() - 1, values.len())
                };
                let from = last.map_or_else(String::new, |last| {
                    format!(r#" AND ("rank_key", "member") >= {}"#, bound(last))
                });
                let to = bound(index);
                sql.push(format!(
                    r#"SELECT CAST({place} AS BIGINT) AS "place", CAST(COUNT(*) AS BIGINT) AS "count" FROM "sealed_entry" WHERE "standings_no" = $1{from} AND ("rank_key", "member") < {to}"#
                ));
                last = Some(index);
            }
            let sql = sql.join(" UNION ALL ");
            let backend = self.db.get_database_backend();
            let statement = Statement::from_sql_and_values(backend, sql, values);
            let mut found = vec![0_u64; chunk.len()];
            for row in self.db.query_all_raw(statement).await? {
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

    async fn list(&self, sql: &str, values: Vec<Value>, limit: usize) -> Result<Vec<RankedEntry>> {
        let sql = format!(
            r#"SELECT "member", "rank_key" FROM "sealed_entry" WHERE "standings_no" = $1 AND {sql}"#
        );
        let mut all: Vec<Value> = vec![self.no.into()];
        all.extend(values);
        all.push((limit as i64).into());
        let statement = Statement::from_sql_and_values(self.db.get_database_backend(), sql, all);
        let mut entries = vec![];
        for row in self.db.query_all_raw(statement).await? {
            let (member, key): (String, i64) =
                (row.try_get("", "member")?, row.try_get("", "rank_key")?);
            entries.push(RankedEntry {
                key: RankKey::from_i64(key)?,
                member: MemberId::new(&member)?,
            });
        }
        Ok(entries)
    }
}

fn place_values(place: &RankedEntry) -> Vec<Value> {
    vec![place.key.to_i64().into(), place.member.to_string().into()]
}
