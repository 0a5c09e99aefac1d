//! The ends of periods, told to the webhooks that ask for them.
//!
//! A period is final once it is over, the lateness of its board has passed, and every score that
//! was taken before then is committed and in SQL. Then one transaction moves the board's row of
//! `ended_period` on by compare-and-set, and writes the events. So webhooks get each period once,
//! however many processes look, and none is passed over while they are away.

use std::collections::HashMap;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use entity::board::{self, WindowRow};
use entity::error::Result;
use entity::sql::begin;
use entity::webhook::outbox::{Asking, Notice, asking, tell_some};
use entity::webhook::{Kind, ended_period, told_period};
use futures::stream::{self, StreamExt};
use ranking::board::Board;
use ranking::commit::content::to_hex;
use ranking::score::format;
use ranking::shown_instant;
use ranking::standings_id::StandingsId;
use ranking::store::read::Standings;
use ranking::window::{Period, Window};
use serde_json::{Value, json};

use crate::board::agenda::{Agenda, Entry, Work};
use crate::deployment::Deployment;
use crate::read::reader::Reader;

/// The version of the standings at the end of a period. Corrections have higher ones.
const FIRST_VERSION: i32 = 1;

/// The most entries that an event names.
pub const WINNERS_MAX: usize = 100;

/// The time after the last instant at which a score may be taken for a period, until it is
/// committed, in milliseconds: as long as a submission may take, and a clock that is behind.
pub const GRACE_MS: i64 = 15_000;

/// The boards of one look, and those that are told of side by side.
const BOARDS_MAX: usize = 1000;
const BOARDS_AT_ONCE: usize = 8;

/// How long the read of a period that is over waits for Redis.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The most periods of a window that one look passes.
const PERIODS_MAX: usize = 100;

/// The pause before a board that failed is looked at again, in milliseconds.
const PERIOD_AGAIN_MS: i64 = 5000;

/// How far the periods of boards have been told, by board and window.
type Told = HashMap<(i64, String), i64>;

/// True if a window has periods that end.
pub(crate) fn may_end(row: &WindowRow) -> bool {
    let window: std::result::Result<Window, _> = row.name.parse();
    !row.hidden && window.is_ok_and(ends)
}

fn ends(window: Window) -> bool {
    window.has_periods() && window.rolling().is_none() && window.counted().is_none()
}

/// Tells of the periods that are final at an instant, and notes in the agenda when to look at the
/// boards again. Looks at no board unless a webhook asks for ends of periods.
///
/// # Errors
/// If SQL fails. A board that fails is logged, and does not stop the others.
pub async fn tell_ended(deployment: &Deployment, agenda: &Agenda, now_ms: i64) -> Result<()> {
    if agenda.signs().webhooks == 0 {
        return Ok(());
    }
    let ended = &asking(&deployment.db, Kind::PeriodEnded).await?[..];
    let corrected = &asking(&deployment.db, Kind::PeriodCorrected).await?[..];
    if ended.is_empty() && corrected.is_empty() {
        return Ok(());
    }
    let reader = &Reader::new(deployment, READ_TIMEOUT);
    let telling = Telling { deployment, reader, ended, corrected, now_ms };
    for entries in agenda.due(Work::End, now_ms).chunks(BOARDS_MAX) {
        let numbers: Vec<i64> = entries.iter().map(|entry| entry.board).collect();
        let mut rows = board::living_of_numbers(&deployment.db, &numbers).await?;
        let told = ended_period::of_boards(&deployment.db, &numbers).await?;
        let of_entry = |entry: &Entry| (*entry, rows.remove(&entry.board));
        let with_rows: Vec<(Entry, Option<board::Model>)> = entries.iter().map(of_entry).collect();
        let boards =
            stream::iter(with_rows).for_each_concurrent(BOARDS_AT_ONCE, async |(entry, row)| {
                let Some(row) = row else {
                    return agenda.put(Work::End, entry, None);
                };
                match telling.of_board(&row, &told).await {
                    Ok(next_ms) => agenda.put(Work::End, entry, next_ms),
                    Err(error) => {
                        tracing::warn!(board = row.slug, %error, "the end of a period waits");
                        agenda.put(Work::End, entry, Some(now_ms + PERIOD_AGAIN_MS));
                    }
                }
            });
        boards.await;
    }
    Ok(())
}

/// One look at boards.
struct Telling<'a> {
    deployment: &'a Deployment,
    reader: &'a Reader,
    /// The webhooks that ask for ends.
    ended: &'a [Asking],
    /// Those that ask for corrections of them.
    corrected: &'a [Asking],
    now_ms: i64,
}

impl Telling<'_> {
    /// Tells of a board's periods that are final. Returns the instant at which the next one is.
    async fn of_board(&self, row: &board::Model, told: &Told) -> Result<Option<i64>> {
        let board = row.to_ranking()?;
        let mut next_ms: Option<i64> = None;
        for window in board.rules.shown().filter(|window| ends(*window)) {
            let until_ms = told.get(&(row.no, window.to_string())).copied();
            if let Some(final_ms) = self.of_window((row, &board), window, until_ms).await? {
                next_ms = Some(next_ms.map_or(final_ms, |next_ms| next_ms.min(final_ms)));
            }
        }
        Ok(next_ms)
    }

    /// As [`Self::of_board`], of one window.
    async fn of_window(
        &self,
        (row, board): (&board::Model, &Board),
        window: Window,
        mut until_ms: Option<i64>,
    ) -> Result<Option<i64>> {
        let calendar = &board.rules.calendar;
        let wait_ms = final_from_ms(row, 0);
        let is_of = |of: &&Asking| of.board_no.is_none_or(|no| no == row.no);
        let asking = || self.ended.iter().chain(self.corrected).filter(is_of);
        let since_ms = asking().map(|of| of.periods_since_ms).min().unwrap_or(self.now_ms);
        let begin_ms = since_ms.saturating_sub(wait_ms).max(until_ms.unwrap_or(0));
        let mut period = window.period_at(begin_ms.clamp(0, self.now_ms.max(0)), calendar)?;
        for _ in 0..PERIODS_MAX {
            let Some(end_ms) = period.end_ms else { return Ok(None) };
            let final_ms = end_ms.saturating_add(wait_ms);
            if period.is_gap() {
                if self.now_ms < end_ms {
                    return Ok(Some(end_ms));
                }
            } else if self.now_ms < final_ms {
                return Ok(Some(final_ms));
            } else if until_ms.is_none_or(|until_ms| until_ms < end_ms) {
                if !board.is_filled(window, &period) || board.sealed(window).is_moving(&period) {
                    return Ok(Some(self.now_ms + PERIOD_AGAIN_MS));
                }
                if asking().any(|of| of.periods_since_ms < final_ms) {
                    self.tell((row, board), window, &period, (until_ms, end_ms)).await?;
                    until_ms = Some(end_ms);
                }
            }
            let Some(following) = window.period_after(&period, calendar)? else { return Ok(None) };
            period = following;
        }
        Ok(Some(self.now_ms))
    }

    /// Tells of a period, unless it has no entries, or another process was first.
    async fn tell(
        &self,
        (row, board): (&board::Model, &Board),
        window: Window,
        period: &Period,
        (before, end_ms): (Option<i64>, i64),
    ) -> Result<()> {
        let reading = (self.deployment, self.reader);
        let found = final_standings(reading, (row, board), window, period).await?;
        let transaction = begin(&self.deployment.db).await?;
        let to =
            ended_period::Model { board_no: row.no, window: window.to_string(), until_ms: end_ms };
        if !ended_period::advance(&transaction, &to, before).await? {
            return Ok(transaction.rollback().await?);
        }
        let final_ms = final_from_ms(row, end_ms);
        let is_of = |of: &&Asking| {
            of.board_no.is_none_or(|no| no == row.no) && of.periods_since_ms < final_ms
        };
        if found.size > 0 {
            let notice = Notice {
                kind: Kind::PeriodEnded,
                board_no: Some(row.no),
                member: None,
                data: found.data(FIRST_VERSION),
                at_ms: self.now_ms,
            };
            let wanted = self.ended.iter().filter(is_of).map(|of| of.id.as_str());
            tell_some(&transaction, &notice, wanted).await?;
        }
        if self.corrected.iter().any(|of| is_of(&of)) {
            let told = told_period::Model {
                board_no: row.no,
                window: window.to_string(),
                start_ms: period.start_ms,
                end_ms,
                version: FIRST_VERSION,
                digest: found.digest(),
                // A change since they were read may have been written before this row.
                changes: 1,
            };
            told_period::insert(&transaction, told).await?;
        }
        Ok(transaction.commit().await?)
    }
}

/// The first instant at which a period that ends at one is final, in Unix milliseconds.
pub(super) fn final_from_ms(row: &board::Model, end_ms: i64) -> i64 {
    end_ms.saturating_add(row.lateness_max_ms.unwrap_or(0)).saturating_add(GRACE_MS)
}

/// The final standings of a period, as far as they are told.
pub(super) struct Final {
    board: String,
    window: Window,
    period: Period,
    size: u64,
    winners: Vec<Value>,
}

impl Final {
    /// The data of an event that tells of them, as the version of this number.
    pub(super) fn data(&self, version: i32) -> Value {
        json!({
            "board": self.board,
            "window": self.window.to_string(),
            "period": {
                "label": self.period.label,
                "startsAt": shown_instant(self.period.start_ms),
                "endsAt": self.period.end_ms.map(shown_instant),
            },
            "version": version,
            "size": self.size,
            "winners": self.winners,
        })
    }

    /// A digest of the size and the winners.
    pub(super) fn digest(&self) -> String {
        let text = json!([self.size, self.winners]).to_string();
        to_hex(digest(&SHA256, text.as_bytes()).as_ref())
    }
}

/// Reads the final standings of a period: their size and first entries.
pub(super) async fn final_standings(
    (deployment, reader): (&Deployment, &Reader),
    (row, board): (&board::Model, &Board),
    window: Window,
    period: &Period,
) -> Result<Final> {
    for partition in deployment.partitions_of(board) {
        partition.settle().await?;
    }
    let id = StandingsId::of(board, "", window, period);
    let standings = Standings::new(&deployment.store, board, id, period.clone());
    let size = reader.size(&standings).await?;
    let entries = match size {
        0 => vec![],
        _ => reader.forward_from(&standings, 0, WINNERS_MAX).await?,
    };
    let (rules, layout) = (&board.rules, board.rules.layout(window));
    let mut winners: Vec<Value> = Vec::with_capacity(entries.len());
    let (mut rank, mut best_of_score) = (1, None);
    for (index, entry) in entries.iter().enumerate() {
        let of_score = layout.first_of_score(entry.key);
        if best_of_score != Some(of_score) {
            (rank, best_of_score) = (index + 1, Some(of_score));
        }
        let score = rules.state(window, period, entry.key).score;
        winners.push(json!({
            "member": entry.member.as_str(),
            "score": format(score, rules.decimals),
            "ordinalRank": index + 1,
            "competitionRank": rank,
        }));
    }
    Ok(Final { board: row.slug.clone(), window, period: period.clone(), size, winners })
}
