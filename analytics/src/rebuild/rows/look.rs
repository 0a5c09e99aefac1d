//! SQL's rows of one moment: their sums, and whose are wrong of those who played since the history was read.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use anyhow::Result;
use entity::{score_event, standing};
use ranking::commit::EventKind;
use ranking::fold::State;
use ranking::window::{Period, Window};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, DbBackend, EntityTrait, QueryFilter,
    QuerySelect, Statement,
};

use super::{ROWS_MAX, Rows};
use crate::fold::Run;

/// How many members one SELECT asks for.
const NAMES_MAX: usize = 1000;

/// Sums are taken of halves: of so many low bits, and of the rest. Neither can leave 64 bits.
const HALF: i64 = 1 << 31;

/// What the rows of a segment add up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    count: i64,
    scores: i128,
    keys: i128,
    /// Keys times numbers that follow from the members' names: so keys that changed places are seen.
    named: i128,
}

/// Sums by segment; none that is of no row.
pub(super) type BySegment = BTreeMap<String, Sums>;

/// What SQL has at one moment.
pub(super) struct Moment {
    /// Who played since the history was read.
    pub(super) later: HashSet<String>,
    /// Whose rows of them are not what that and the events since give.
    pub(super) wrong: BTreeSet<String>,
    /// The sums of all others.
    pub(super) sums: BySegment,
}

/// Scores and keys of members, by segment.
type ByMember = HashMap<String, BTreeMap<String, (i64, i64)>>;

impl Sums {
    fn add(&mut self, member: &str, score: i64, key: i64) {
        self.count += 1;
        self.scores += i128::from(score);
        self.keys += i128::from(key);
        self.named += i128::from(key % 65_521 * number(member));
    }

    fn without(self, other: Self) -> Self {
        Self {
            count: self.count - other.count,
            scores: self.scores - other.scores,
            keys: self.keys - other.keys,
            named: self.named - other.named,
        }
    }
}

/// A number that follows from a name, as [`NUMBER`] has SQL say it.
fn number(member: &str) -> i64 {
    let code = |character: Option<char>| character.map_or(0, |one| i64::from(u32::from(one)));
    let mut characters = member.chars();
    let length = characters.clone().count() as i64;
    let (first, last) = (characters.next(), member.chars().next_back());
    (length + 31 * code(first) + 131 * code(last)) % 4093
}

/// [`number`] in SQL; what gives the code of a text's first character differs.
const NUMBER: &str = r#"((length("member") + 31 * {code}("member") + 131 * {code}(substr("member", length("member"), 1))) % 4093)"#;

impl Rows<'_> {
    pub(super) async fn look(&self) -> Result<Moment> {
        let view = self.deployment.view().await?;
        let later: HashSet<String> = score_event::Entity::find()
            .select_only()
            .column(score_event::Column::Member)
            .distinct()
            .filter(score_event::Column::Partition.eq(i32::from(self.partition.0)))
            .filter(score_event::Column::Seq.gt(self.seq))
            .filter(score_event::Column::BoardNo.eq(self.board.no.0))
            .into_tuple::<String>()
            .all(&view)
            .await?
            .into_iter()
            .collect();
        let mut sums = self.sums_of_all(&view).await?;
        let mut in_sql = ByMember::new();
        let names: Vec<&String> = later.iter().collect();
        for names in names.chunks(NAMES_MAX) {
            let named = standing::Column::Member.is_in(names.iter().copied());
            let rows = standing::Entity::find().filter(self.is_ours().add(named));
            for row in rows.all(&view).await? {
                let mut one = Sums::default();
                one.add(&row.member, row.score, row.rank_key);
                let of_segment = sums.entry(row.segment.clone()).or_default();
                *of_segment = of_segment.without(one);
                let of_member = in_sql.entry(row.member).or_default();
                of_member.insert(row.segment, (row.score, row.rank_key));
            }
        }
        sums.retain(|_, sums| *sums != Sums::default());
        let (mut said, voided) = self.said_of(&view, &later).await?;
        view.rollback().await?;
        let is_wrong = |member: &&String| {
            let (said, in_sql) = (said.remove(*member), in_sql.remove(*member));
            // After a void the persister has folded the member anew.
            !voided.contains(*member) && said.unwrap_or_default() != in_sql.unwrap_or_default()
        };
        let wrong = later.iter().filter(is_wrong).cloned().collect();
        Ok(Moment { later, wrong, sums })
    }

    /// What the history and the events since give those who played since, and who of them had an event voided.
    async fn said_of(
        &self,
        view: &DatabaseTransaction,
        later: &HashSet<String>,
    ) -> Result<(ByMember, HashSet<String>)> {
        let (rules, all) = (&self.board.rules, Period::all());
        let mut states: HashMap<String, BTreeMap<String, State>> = HashMap::new();
        for Run { id, rows, .. } in self.all.runs().iter().filter(|_| !later.is_empty()) {
            for row in rows.clone() {
                let member = self.all.member(row);
                if later.contains(member) {
                    let state = rules.state(Window::All, &all, self.all.key(row));
                    let of_member = states.entry(member.to_owned()).or_default();
                    of_member.insert(id.segment.clone(), state);
                }
            }
        }
        let (mut voided, mut last) = (HashSet::new(), (self.seq, i32::MAX));
        loop {
            let page = score_event::page_after(self.partition, last, ROWS_MAX)
                .filter(score_event::Column::BoardNo.eq(self.board.no.0))
                .all(view)
                .await?;
            let Some(row) = page.last() else { break };
            last = (row.seq, row.event_index);
            for row in page {
                let event = row.to_ranking()?;
                let of_member = states.entry(row.member.clone()).or_default();
                let (score, at_ms) = match event.kind {
                    EventKind::Score { score, at_ms, .. } => (score, at_ms),
                    EventKind::Removal => {
                        of_member.clear();
                        continue;
                    }
                    EventKind::Void { .. } => {
                        voided.insert(row.member);
                        continue;
                    }
                };
                let step = rules.first(Window::All, score, at_ms);
                for segment in [String::new()].into_iter().chain(event.segments) {
                    let before = of_member.get(&segment).copied();
                    of_member.insert(segment, rules.fold(Window::All, before, step));
                }
            }
        }
        let mut said = ByMember::new();
        for (member, states) in states {
            let of_member = said.entry(member).or_default();
            for (segment, state) in states {
                // A state without a key is nothing that a row could hold.
                if let Ok(key) = rules.key(Window::All, &all, state) {
                    of_member.insert(segment, (state.score, key.to_i64()));
                }
            }
        }
        Ok((said, voided))
    }

    async fn sums_of_all(&self, view: &DatabaseTransaction) -> Result<BySegment> {
        let backend = view.get_database_backend();
        let code = match backend {
            DbBackend::Postgres => "ascii",
            _ => "unicode",
        };
        let number = NUMBER.replace("{code}", code);
        let sum = |what: &str| format!("CAST(SUM({what}) AS BIGINT)");
        let halves = |column: &str| {
            let high = sum(&format!(r#""{column}" / {HALF}"#));
            format!("{high}, {}", sum(&format!(r#""{column}" % {HALF}"#)))
        };
        let named = sum(&format!(r#"("rank_key" % 65521) * {number}"#));
        // Without the plus, SQLite goes through the whole board, in the order of its segments.
        let select = format!(
            r#"SELECT "segment", CAST(COUNT(*) AS BIGINT), {}, {}, {named} FROM "standing" WHERE +"board_no" = {} AND "partition" = {} GROUP BY "segment""#,
            halves("score"),
            halves("rank_key"),
            self.board.no,
            self.partition
        );
        let mut sums = BySegment::new();
        for row in view
            .query_all_raw(Statement::from_string(backend, select))
            .await?
        {
            let number = |index: usize| row.try_get_by_index::<i64>(index).map(i128::from);
            let whole = |index: usize| -> Result<i128> {
                Ok(number(index)? * i128::from(HALF) + number(index + 1)?)
            };
            let of_segment = Sums {
                count: row.try_get_by_index(1)?,
                scores: whole(2)?,
                keys: whole(4)?,
                named: number(6)?,
            };
            sums.insert(row.try_get_by_index(0)?, of_segment);
        }
        Ok(sums)
    }

    /// The sums that history gives, without some members.
    pub(super) fn expected(&self, without: &HashSet<String>) -> BySegment {
        let mut sums = BySegment::new();
        for Run { id, rows, .. } in self.all.runs() {
            let of_segment = sums.entry(id.segment.clone()).or_default();
            for row in rows.clone() {
                let member = self.all.member(row);
                if without.is_empty() || !without.contains(member) {
                    let key = self.all.key(row).to_i64();
                    of_segment.add(member, self.all.score(row), key);
                }
            }
        }
        sums.retain(|_, sums| *sums != Sums::default());
        sums
    }
}
