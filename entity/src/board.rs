//! Boards, and how a row becomes the rules that `ranking` needs.

mod columns;
pub mod display;
pub mod entrant;
mod query;
pub mod reshard;
pub mod seen;
mod window_rows;

use std::collections::BTreeMap;
use std::sync::Arc;

use ranking::attribute::segment_of;
use ranking::board::admission::Admission;
use ranking::board::fair_play::{Excess, FairPlay};
use ranking::board::layout::Layouts;
use ranking::board::rules::{Rules, RulesInput};
use ranking::board::{Added, Board};
use ranking::id::BoardNo;
use ranking::window::Window;
use ranking::window::calendar::{Calendar, Weekday};
use sea_orm::entity::prelude::*;
use serde::de::DeserializeOwned;

use self::display::{Display, search_lines};
use self::reshard::{Reshard, Step};

pub use self::columns::{Direction, Policy, TieBreak, Visibility};
pub use self::query::{
    Change, after, all, archived_before_ms, changed_after, count, find, has_private, insert,
    living, living_of_numbers, of_member, of_numbers, of_slug, of_slugs, page_after, page_before,
    shards_after, some, some_given_out, update,
};
pub use self::window_rows::{SeasonRow, WindowRow, WindowState, first_windows, windows_text};

/// A row of `board`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "board")]
pub struct Model {
    /// The number, never used again.
    #[sea_orm(primary_key)]
    pub no: i64,
    /// The name in URLs and queries.
    pub slug: String,
    /// The title.
    pub title: String,
    /// The order of scores.
    pub direction: Direction,
    /// How a submitted score changes the score of its member.
    pub policy: Policy,
    /// The order of members with equal scores.
    pub tie_break: TieBreak,
    /// The unit of time in tie-breaks, in milliseconds.
    pub tick_ms: i32,
    /// Digits after the decimal point, 0 to 9.
    pub decimals: i32,
    /// The lowest score in `all`, raw.
    pub min_score: i64,
    /// The highest score in `all`, raw.
    pub max_score: i64,
    /// The IANA name of the time zone.
    pub time_zone: String,
    /// The hour of the local clock at which days begin, 0 to 23.
    pub reset_hour: i32,
    /// The day with which weeks begin, from 1 for Monday to 7 for Sunday.
    pub week_start: i32,
    /// The number of shards (S).
    pub shards: i32,
    /// Member attributes that the board has segments by, as a JSON array.
    pub segment_by: String,
    /// The clients that may read the board.
    pub visibility: Visibility,
    /// True if a member's own token may submit.
    pub self_submit: bool,
    /// The windows besides `all`, as a JSON array of name and retain.
    pub windows: String,
    /// The generation; it goes up when the layout changes.
    pub generation: i32,
    /// Creation time, in Unix milliseconds.
    pub created_at_ms: i64,
    /// The first instant that the board accepts scores for, in Unix milliseconds.
    pub opens_at_ms: Option<i64>,
    /// The first instant for which the board no longer accepts scores, in Unix milliseconds.
    pub closes_at_ms: Option<i64>,
    /// The age up to which the board accepts scores, in milliseconds; none if it has no limit.
    pub lateness_max_ms: Option<i64>,
    /// Deletion time, in Unix milliseconds. The slug is free from then on.
    pub deleted_at_ms: Option<i64>,
    /// Time at which all data of the deleted board was gone, in Unix milliseconds.
    pub purged_at_ms: Option<i64>,
    /// Events earned before this instant may be archived, in Unix milliseconds; none if no archive
    /// exists.
    pub archived_before_ms: Option<i64>,
    /// Former numbers of shards, as a JSON array; each has the generation that ended it.
    pub former_layouts: String,
    /// The move to another number of shards, as JSON of [`Reshard`]; none if the board does not
    /// move.
    pub reshard: Option<String>,
    /// End of the move's lease, in Unix milliseconds: until then its holder counts as alive.
    pub reshard_until_ms: Option<i64>,
    /// True if its events may have metadata.
    pub metadata: bool,
    /// The number of its last change that background work depends on. SQL sets it.
    pub change: i64,
    /// The texts and tags by which people know it, as JSON of [`Display`]; none if it has none.
    pub display: Option<String>,
    /// The lines that a search looks at: see [`search_lines`].
    pub search: String,
    /// True if only members who joined may submit.
    pub joining: bool,
    /// The most members who may have joined at once; none if there is no limit.
    pub entrants_max: Option<i32>,
    /// The number of members who have joined.
    pub entrants: i64,
    /// The number of the last joining.
    pub entrants_no: i64,
    /// The most scores of a member that are ranked in a minute; none if there is no limit.
    pub per_minute_max: Option<i32>,
    /// The largest change of a member's score in `all` by one submission, raw; none if there is no
    /// limit.
    pub delta_max: Option<i64>,
    /// True if scores beyond these limits are refused; they are quarantined otherwise.
    pub excess_refused: bool,
}

no_relations!();

impl Model {
    /// The board's rules.
    ///
    /// # Errors
    /// `Corrupt` if the row holds a value that createBoard never writes.
    pub fn to_ranking(&self) -> ranking::Result<Board> {
        let broken = |what: &str| {
            ranking::Error::Corrupt(format!("board {} has an invalid {what}", self.slug))
        };
        let (mut windows, mut added, mut seasons) = (vec![], BTreeMap::new(), vec![]);
        let mut attempts = BTreeMap::new();
        for row in self.window_rows()? {
            if row.state == WindowState::Dropped {
                continue;
            }
            let window: Window = row.name.parse()?;
            if !row.hidden {
                windows.push(window);
            }
            if let Some(counted) = window.counted() {
                attempts.insert(counted, row.attempts_max.ok_or_else(|| broken("attemptsMax"))?);
            }
            let is_whole = row.is_settled();
            seasons.extend(row.seasons.iter().filter_map(SeasonRow::to_ranking));
            added.insert(window, Added { generation: row.since, is_whole, sealed: row.sealed() });
        }
        let rules = Rules::new(RulesInput {
            direction: self.direction.into(),
            policy: self.policy.into(),
            tie_break: self.tie_break.into(),
            tick_ms: (self.tie_break != TieBreak::Member).then_some(self.tick_ms.unsigned_abs()),
            decimals: self.decimals.try_into().map_err(|_| broken("number of decimals"))?,
            min: self.min_score,
            max: self.max_score,
            calendar: self.calendar()?.with_seasons(seasons)?,
            shards: self.shards.try_into().map_err(|_| broken("number of shards"))?,
            windows,
            attempts,
        })?;
        let generation = self.generation.try_into().map_err(|_| broken("generation"))?;
        Ok(Board {
            no: BoardNo(self.no),
            generation,
            rules: Arc::new(rules),
            admission: Admission::new(self.opens_at_ms, self.closes_at_ms, self.lateness_max_ms)?,
            added: Arc::new(added),
            layouts: Arc::new(self.layouts()?),
            has_metadata: self.metadata,
            is_joined: self.joining,
            fair_play: self.fair_play(),
        })
    }

    /// The limits beyond which a member's scores are suspicious.
    pub fn fair_play(&self) -> FairPlay {
        let excess = if self.excess_refused { Excess::Refuse } else { Excess::Quarantine };
        FairPlay {
            per_minute_max: self.per_minute_max.map(i32::unsigned_abs),
            delta_max: self.delta_max,
            excess,
        }
    }

    /// Sets the limits beyond which a member's scores are suspicious.
    pub fn set_fair_play(&mut self, fair_play: &FairPlay) {
        self.per_minute_max = fair_play.per_minute_max.map(|max| max as i32);
        self.delta_max = fair_play.delta_max;
        self.excess_refused = fair_play.excess == Excess::Refuse;
    }

    /// The rules by which periods begin.
    fn calendar(&self) -> ranking::Result<Calendar> {
        let calendar = Calendar::of_zone(ranking::window::parse_zone(&self.time_zone)?);
        let week_start = i8::try_from(self.week_start).ok();
        let week_start = week_start.and_then(|day| Weekday::from_monday_one_offset(day).ok());
        let week_start = week_start.ok_or_else(|| {
            let text = format!("board {} has an invalid first day of the week", self.slug);
            ranking::Error::Corrupt(text)
        })?;
        Ok(Calendar { week_start, ..calendar.reset_at(self.reset_hour)? })
    }

    /// The board's former numbers of shards, and whether a move to the present one is still under
    /// way.
    fn layouts(&self) -> ranking::Result<Layouts> {
        let former = self.parse(&self.former_layouts)?;
        let reshard = self.reshard()?;
        let is_coming = reshard.is_some_and(|reshard| reshard.step == Step::Decided);
        Ok(Layouts { former, is_coming })
    }

    /// The move to another number of shards, if one is under way.
    ///
    /// # Errors
    /// `Corrupt` if the row holds a value that no move writes.
    pub fn reshard(&self) -> ranking::Result<Option<Reshard>> {
        self.reshard.as_deref().map(|json| self.parse(json)).transpose()
    }

    /// The member attributes that the board has segments by.
    ///
    /// # Errors
    /// `Corrupt` if they are not a JSON array of texts.
    pub fn segment_attributes(&self) -> ranking::Result<Vec<String>> {
        self.parse(&self.segment_by)
    }

    /// The texts and tags by which people know the board.
    ///
    /// # Errors
    /// `Corrupt` if it is not the JSON of a [`Display`].
    pub fn display(&self) -> ranking::Result<Display> {
        self.display.as_deref().map_or_else(|| Ok(Display::default()), |json| self.parse(json))
    }

    /// The windows besides `all`.
    ///
    /// # Errors
    /// `Corrupt` if they are not a JSON array of windows.
    pub fn window_rows(&self) -> ranking::Result<Vec<WindowRow>> {
        self.parse(&self.windows)
    }

    fn parse<T: DeserializeOwned>(&self, json: &str) -> ranking::Result<T> {
        serde_json::from_str(json)
            .map_err(|error| ranking::Error::Corrupt(format!("board {}: {error}", self.slug)))
    }
}

/// The row of a new public board with these rules, still without a number; `time_zone` is the name
/// of its calendar's zone.
pub fn of_rules(
    slug: &str,
    title: &str,
    rules: &Rules,
    time_zone: &str,
    created_at_ms: i64,
) -> Model {
    Model {
        no: 0,
        slug: slug.to_owned(),
        title: title.to_owned(),
        direction: rules.direction.into(),
        policy: rules.policy.into(),
        tie_break: rules.tie_break.into(),
        tick_ms: rules.tick_ms as i32,
        decimals: rules.decimals.into(),
        min_score: rules.min,
        max_score: rules.max,
        time_zone: time_zone.to_owned(),
        reset_hour: rules.calendar.reset_hour.into(),
        week_start: rules.calendar.week_start.to_monday_one_offset().into(),
        shards: rules.shards.into(),
        segment_by: "[]".to_owned(),
        visibility: Visibility::Public,
        self_submit: false,
        windows: windows_text(&first_windows(rules, &BTreeMap::new())),
        generation: 1,
        created_at_ms,
        opens_at_ms: None,
        closes_at_ms: None,
        lateness_max_ms: None,
        deleted_at_ms: None,
        purged_at_ms: None,
        archived_before_ms: None,
        former_layouts: "[]".to_owned(),
        reshard: None,
        reshard_until_ms: None,
        metadata: false,
        change: 0,
        display: None,
        search: search_lines(slug, title, &[]),
        joining: false,
        entrants_max: None,
        entrants: 0,
        entrants_no: 0,
        per_minute_max: None,
        delta_max: None,
        excess_refused: false,
    }
}

/// The longest segment, in bytes: an attribute, a colon and a text of 200 characters.
const SEGMENT_BYTES_MAX: usize = 1024;

/// Checks that a board has a segment, given the member attributes that it has segments by. The
/// empty segment is everyone.
///
/// # Errors
/// `Invalid` if the board has no such segment, or if it is too long; the message says what it would
/// accept.
pub fn check_segment(slug: &str, segment_by: &[String], segment: &str) -> ranking::Result<()> {
    let is_of = |attribute: &String| {
        let value = segment.strip_prefix(attribute.as_str());
        value.is_some_and(|value| value.len() > 1 && value.starts_with(':'))
    };
    if segment.len() > SEGMENT_BYTES_MAX {
        return Err(ranking::Error::Invalid(format!(
            "invalid segment {} of board {slug}: expected at most {SEGMENT_BYTES_MAX} bytes",
            ranking::shown(segment)
        )));
    }
    // Not every database takes them in a text.
    let is_text = !segment.chars().any(char::is_control);
    if segment.is_empty() || is_text && segment_by.iter().any(is_of) {
        return Ok(());
    }
    let accepted = match segment_by.first() {
        Some(attribute) => format!("expected a segment such as {:?}", segment_of(attribute, "eu")),
        None => "expected no segment, as the board has none".to_owned(),
    };
    Err(ranking::Error::Invalid(format!(
        "invalid segment {} of board {slug}: {accepted}",
        ranking::shown(segment)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_of_an_attribute_and_a_text() {
        let is_accepted = |segment| check_segment("b", &["region".to_owned()], segment).is_ok();
        assert!(["", "region:eu", "region:a:b"].into_iter().all(is_accepted));
        let refused = ["region", "region:", "team:eu", "regions:eu", "region:\0", "region:a\nb"];
        assert!(!refused.into_iter().any(is_accepted));
    }
}
