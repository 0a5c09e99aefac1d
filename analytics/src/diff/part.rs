//! Compares a board's part in one partition: folds its history window by window, and sets it
//! against Redis and SQL.

mod archived;
mod fold;
mod in_sql;
mod later;
pub(crate) mod small;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, Result};
use engine::deployment::Deployment;
use engine::integrity::look::{Location, is_sealing};
use engine::integrity::repair::ForeignKey;
use engine::partition::Partition;
use entity::board;
use entity::integrity::integrity_finding::Kind;
use ranking::board::Board;
use ranking::id::PartitionNo;
use ranking::score::rank_key::RankKey;
use ranking::standings_id::StandingsId;
use ranking::window::Window;
use ranking::window::roll::{Coverage, Rolls};
use sea_orm::EntityTrait;

use super::findings::Findings;
use super::rows::{Rows, Walk};
use super::second_look::Suspects;
use super::sets::{Digest, SetChunk, Sets};
use super::sums::{Hashed, Sum};
use crate::diff::finding::{Finding, What};
use crate::fold::load::CheckedStates;
use crate::frame::fold::Which;
use crate::job::Job;
use fold::Fold;

/// The partitions that hold a board's shards.
pub(crate) fn partitions(deployment: &Deployment, board: &Board) -> Vec<PartitionNo> {
    deployment.store.partitions().of_board(board)
}

/// A board's part in one partition.
pub(crate) struct PartitionDiff<'a> {
    /// The stores.
    /// The board's row.
    pub(crate) row: &'a board::Model,
    /// The board.
    pub(crate) board: &'a Board,
    /// The partition.
    pub(crate) partition: Partition<'a>,
    /// The keys of the standings to compare, in order.
    pub(crate) keys: &'a [String],
    /// True if Redis has no other clients.
    pub(crate) is_exclusive: bool,
    /// The states of an engine that it is compared with, in place of its history.
    pub(crate) states: Option<&'a Arc<CheckedStates>>,
    /// The job that shows progress.
    pub(crate) job: &'a Job,
}

/// The result of comparing a part.
pub(crate) struct Compared {
    /// The number of entries that history folds to.
    pub(crate) entries: usize,
    /// The digest of Redis and the hashes of the rows in SQL, if all agreed without a suspect.
    pub(crate) seen: Option<(String, Hashed)>,
}

impl PartitionDiff<'_> {
    /// Compares the part in full. Its board may be [small](small::is_small).
    pub(crate) async fn compare(
        &self,
        is_small: bool,
        findings: &mut Findings,
    ) -> Result<Compared> {
        let (board, partition) = (self.board, self.partition);
        let (mut fold, rolls) = Fold::begin(self, is_small).await?;
        let mut suspects = Suspects::new(partition, board);
        let (mut digest, mut entries) = (Digest::default(), 0);
        let (mut ids, mut standing) = (BTreeSet::new(), Sum::default());
        let found_before = findings.count;
        let mut left: BTreeSet<&String> = self.keys.iter().collect();
        let is_whole = |window: &&Window| board.is_whole(**window);
        for &window in board.rules.windows.iter().filter(is_whole) {
            self.job
                .stage(&format!("{}: folding {window} of partition {partition}", self.row.slug), 0);
            let rows = fold.rows(self, window, &rolls).await?;
            entries += rows.len();
            ids.extend(rows.lists().cloned());
            if window == Window::All {
                standing = self.compare_standing(&rows, &mut suspects, findings).await?;
            }
            if let Some(later) = fold.later() {
                later.suspect(&rows, &mut suspects, findings).await?;
            } else if Which::of(board, window) == Which::Every {
                self.compare_sealed(window, &rows, &mut suspects, findings).await?;
            }
            let of_window = |key: &&String| {
                let id = partition.store.keys().parse_standings(partition.no, key);
                id.is_some_and(|id| {
                    id.window == window && id.generation == board.generation_of(window)
                })
            };
            let keys: Vec<String> = self.keys.iter().filter(of_window).cloned().collect();
            for key in &keys {
                left.remove(key);
            }
            self.compare_redis(&keys, &rows, &rolls, &mut digest, &mut suspects, findings).await?;
        }
        // Keys of windows that the board does not have.
        let keys: Vec<String> = left.into_iter().cloned().collect();
        self.compare_redis(&keys, &Rows::default(), &rolls, &mut digest, &mut suspects, findings)
            .await?;
        if let Some(later) = fold.later() {
            later.suspect_own(&mut suspects, findings).await?;
        }
        let archived = match fold.archived() {
            Some(archived) => archived::compare(self, archived, &mut suspects, findings).await?,
            None => Sum::default(),
        };
        let lists = self.compare_lists(&ids, findings).await?;
        // The proof of an earlier history would be none of this one.
        let agrees =
            self.states.is_none() && !suspects.has_had_some && findings.count == found_before;
        suspects.end(findings).await?;
        let marks = marks_text(&rolls);
        Ok(Compared {
            entries,
            seen: agrees.then(|| {
                let redis = digest.finish(&[lists, marks].concat());
                (redis, Hashed { standing, archived })
            }),
        })
    }

    /// The digest of what Redis has; `None` if a key is not a sorted set.
    pub(crate) async fn digest(&self) -> Result<Option<String>> {
        let rolls = self.rolls().await?;
        let mut digest = Digest::default();
        let mut sets = Sets::begin(&self.partition, self.keys, self.is_exclusive).await?;
        while let Some((place, part)) = sets.next().await? {
            match part {
                SetChunk::Entries(entries) => {
                    self.job.advance(entries.len());
                    digest.add(&self.keys[place], &entries);
                }
                SetChunk::End => {}
                SetChunk::Foreign => return Ok(None),
            }
        }
        let no_ids = BTreeSet::new();
        let mut none = Findings::default();
        let lists = self.compare_lists(&no_ids, &mut none).await?;
        Ok(Some(digest.finish(&[lists, marks_text(&rolls)].concat())))
    }

    async fn rolls(&self) -> Result<Rolls> {
        let marks = self.partition.rolls(self.board.no).await?;
        Ok(Rolls { marks, now_ms: self.partition.clock.now_ms() })
    }

    /// Compares sorted sets with rows.
    async fn compare_redis(
        &self,
        keys: &[String],
        rows: &Rows,
        rolls: &Rolls,
        digest: &mut Digest,
        suspects: &mut Suspects<'_>,
        findings: &mut Findings,
    ) -> Result<()> {
        let partition = self.partition;
        self.job.stage(
            &format!("{}: comparing Redis in partition {partition}", self.row.slug),
            rows.len(),
        );
        let name = |key: &String| {
            partition
                .store
                .keys()
                .parse_standings(partition.no, key)
                .context("a key does not name standings")
        };
        let mut missing = self.all_there(rows, rolls)?;
        let mut sets = Sets::begin(&self.partition, keys, self.is_exclusive).await?;
        let mut present: Option<(usize, StandingsId, Walk<'_>)> = None;
        while let Some((place, part)) = sets.next().await? {
            if present.as_ref().is_none_or(|(of, ..)| *of != place) {
                let id = name(&keys[place])?;
                let walk = rows.walk(&id);
                present = Some((place, id, walk));
            }
            let Some((_, id, walk)) = &mut present else {
                continue;
            };
            match part {
                SetChunk::Entries(entries) => {
                    self.job.advance(entries.len());
                    digest.add(&keys[place], &entries);
                    compare_entries(&entries, id, walk, missing.contains(id), suspects);
                }
                SetChunk::End | SetChunk::Foreign => {
                    if matches!(part, SetChunk::Foreign) {
                        findings.add(self.foreign_key(&keys[place]));
                    }
                    if let Some((_, id, walk)) = present.take() {
                        let counts = missing.remove(&id);
                        walk.end(|member| {
                            if counts {
                                suspects.add(member.as_bytes(), Location::Entry(id.clone()));
                            }
                        });
                    }
                }
            }
            suspects.look_again_if_many(findings).await?;
        }
        for id in missing {
            rows.walk(id)
                .end(|member| suspects.add(member.as_bytes(), Location::Entry(id.clone())));
            suspects.look_again_if_many(findings).await?;
        }
        Ok(())
    }

    /// The finding of a key that is not a sorted set.
    pub(crate) fn foreign_key(&self, key: &str) -> Finding {
        let what = What::Key(ForeignKey { key: key.to_owned(), is_gone: false });
        Finding::of_no_member(Kind::Phantom, self.board.no.0, self.partition.no, what)
            .noted("a key that is not a sorted set")
    }

    /// The standings of which Redis must hold all entries.
    fn all_there<'r>(&self, rows: &'r Rows, rolls: &Rolls) -> Result<BTreeSet<&'r StandingsId>> {
        let mut ids = BTreeSet::new();
        for id in rows.lists() {
            if self.is_all_there(id, rolls)? {
                ids.insert(id);
            }
        }
        Ok(ids)
    }

    /// True if Redis must hold all entries of the standings: they are not sealed, and a rolling
    /// window has begun or prepared the period.
    fn is_all_there(&self, id: &StandingsId, rolls: &Rolls) -> Result<bool> {
        if is_sealing(self.board, id) {
            return Ok(false);
        }
        if id.window.rolling().is_none() {
            return Ok(true);
        }
        let calendar = &self.board.rules.calendar;
        let period = id.window.period_named(&id.period, calendar)?;
        Ok(rolls.reach(id, &period, calendar)? == Coverage::Complete)
    }

    /// Finds standings of `by_history` whose period the list of periods does not name. Returns what
    /// the lists have for all standings, as lines for the digest.
    async fn compare_lists(
        &self,
        by_history: &BTreeSet<StandingsId>,
        findings: &mut Findings,
    ) -> Result<Vec<String>> {
        let (board, store) = (self.board, &self.partition.store);
        let (mut lists, mut ids) = (vec![], vec![]);
        for key in self.keys {
            let id = store.keys().parse_standings(self.partition.no, key);
            let is_listed = |id: &StandingsId| {
                id.window.has_periods()
                    && board.rules.windows.contains(&id.window)
                    && board.generation_of(id.window) == id.generation
            };
            if let Some(id) = id.filter(is_listed) {
                lists.push((store.keys().periods(self.partition.no, &id), id.period.clone()));
                ids.push(id);
            }
        }
        let (mut lines, mut unlisted) = (vec![], BTreeMap::new());
        for (lists, ids) in lists.chunks(LISTED_MAX).zip(ids.chunks(LISTED_MAX)) {
            for (id, start) in ids.iter().zip(store.listed(lists).await?) {
                lines.push(format!("{id} {start:?}"));
                if by_history.contains(id) {
                    let period = id.window.period_named(&id.period, &board.rules.calendar)?;
                    if start != Some(period.present_from_ms as f64) {
                        unlisted.insert(id.clone(), period);
                    }
                }
            }
        }
        if unlisted.is_empty() {
            return Ok(lines);
        }
        // A period that was sealed or emptied since need not be listed.
        let row = board::Entity::find_by_id(board.no.0).one(&self.partition.db).await?;
        let later = row.map_or_else(|| Ok(board.clone()), |row| row.to_ranking())?;
        for (id, period) in unlisted {
            let key = store.keys().standings(self.partition.no, &id);
            let list = (store.keys().periods(self.partition.no, &id), id.period.clone());
            let size = store.sizes(&[key]).await?.pop().flatten();
            let start = store.listed(&[list]).await?.pop().flatten();
            let is_listed = start == Some(period.present_from_ms as f64);
            if size.is_some_and(|size| size > 0) && !is_listed && !is_sealing(&later, &id) {
                let found = Finding::of_no_member(
                    Kind::Missing,
                    board.no.0,
                    self.partition.no,
                    What::Unlisted(id),
                );
                findings
                    .add(found.noted("it has entries, but the list of periods does not name it"));
            }
        }
        Ok(lines)
    }
}

/// Compares some entries of a sorted set with the list that it should be. Entries that only the
/// list has are suspects if Redis must hold all of them.
fn compare_entries(
    entries: &[(Vec<u8>, f64)],
    id: &StandingsId,
    walk: &mut Walk<'_>,
    is_all_there: bool,
    suspects: &mut Suspects<'_>,
) {
    let mut lost = |member: &str| {
        if is_all_there {
            suspects.add(member.as_bytes(), Location::Entry(id.clone()));
        }
    };
    let mut wrong = vec![];
    for (member, double) in entries {
        let key = RankKey::from_f64(*double).map(RankKey::to_i64);
        if !key.is_ok_and(|key| walk.meets(key, None, member, &mut lost)) {
            wrong.push(member);
        }
    }
    for member in wrong {
        suspects.add(member, Location::Entry(id.clone()));
    }
}

/// Labels that one call looks up.
const LISTED_MAX: usize = 1000;

/// The marks of rolling windows as text, for the digest.
fn marks_text(rolls: &Rolls) -> Vec<String> {
    let marks: BTreeMap<_, _> = rolls.marks.iter().collect();
    marks.into_iter().map(|(series, mark)| format!("{series} {}", mark.to_text())).collect()
}
