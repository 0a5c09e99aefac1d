//! Every Redis key of Laurel is made here and nowhere else.
//!
//! ```text
//! laurel:{3}:owner          "<deployment> <Redis>": the ids of the deployment that has these keys,
//!                           and of the Redis that it knows
//! laurel:{3}:head           the last commit: "<seq> <commit id> <layout of these keys> <clock>
//!                           <epoch> <deployment> <run id>"
//! laurel:{3}:log            stream of commits on their way to SQL, and the last ones that SQL has;
//!                           entry ids <seq>-0
//! laurel:{3}:settled        the seq up to which SQL had the commits when the log was last trimmed
//! laurel:{3}:sizes          list: for each commit in the log, the bytes of the log up to its end
//! laurel:{3}:seen:<bucket>  hash of the event ids of four hours → their records
//! laurel:{3}:gen            hash of marks: board number → its generation unless it is 1,
//!                           or "held 7" during a move to generation 7, or "deleted";
//!                           12.1:daily → progress of sealing in a window;
//!                           12:layout → the generation that began its layout unless it is 1;
//!                           member:ann → "held" during a merge of that member, or "into bob",
//!                           or "banned everywhere", or "banned 12 14" of some boards
//! laurel:{3}:periods:12.1:region%3Aeu:daily
//!                           sorted set: label of a period that had an entry → its start, Unix ms
//! laurel:{3}:rolls:12       hash: series of a rolling window, as 1:region%3Aeu:7d → its progress,
//!                           as "<start in Unix ms> ready"
//! laurel:{3}:entrants:12.1  hash of the members who joined a board in a layout, by the generation
//!                           that began it → the number of their joining, below 0 once they left
//! laurel:{3}:positions:12.1 hash of the source partitions of which a board in a layout has scores,
//!                           as 0:scores → the position in it, as "812.0 !810.3"; "count" → their
//!                           number
//! laurel:{3}:pace:12:29833333
//!                           hash of the members with scores on a board in a minute since 1970 →
//!                           the number of those that are ranked; expires
//! laurel:{3}:recovery       the token of the process that recovers the partition; expires
//! laurel:{3}:nowhere        never exists
//! laurel:{0}:changes        the number of the last change of a board in SQL, in one partition only
//! laurel:{0}:revoked        stream of the ids of access tokens that were revoked lately, likewise
//! laurel:{3}:z:12.1:region%3Aeu:daily:2025-09-03
//!            │ │  │ │         │     └ period       sorted set: member → rank key as a double
//!            │ │  │ │         └ window
//!            │ │  │ └ segment, empty for everyone
//!            │ │  └ generation in which the board got the window
//!            │ └ board number
//!            └ partition, the hash tag: all keys of a partition are on one node
//! laurel:{3}:stage:<id>     exists while everything staged under that id does; expires earlier
//! laurel:{3}:stage:<id>:…   sorted set: staged standings, under their later name; expires
//! ```
//! `laurel` is the prefix. `:` and `%` inside a part are written `%3A` and `%25`.

use crate::error::{Error, Result};
use crate::id::{BoardNo, PartitionNo};
use crate::standings_id::{StandingsId, unescape};
use crate::window::Window;
use crate::window::seal::SealName;

/// Makes the keys under one prefix.
#[derive(Debug, Clone)]
pub struct KeySpace {
    prefix: String,
}

impl KeySpace {
    /// Checks the prefix.
    ///
    /// # Errors
    /// `Invalid` unless it has 1 to 64 characters from `A-Z a-z 0-9 _ - . :`; braces would move the
    /// hash tag.
    pub fn new(prefix: &str) -> Result<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
        if (1..=64).contains(&prefix.len()) && prefix.chars().all(plain) {
            return Ok(Self { prefix: prefix.to_owned() });
        }
        Err(Error::invalid(
            "invalid key prefix: expected 1 to 64 characters from A-Z, a-z, 0-9, _, -, . and :",
        ))
    }

    /// String: `<deployment> <Redis>`, the ids of the deployment that has the partition's keys and
    /// of its Redis; see [`Owner`](super::owner::Owner).
    pub fn owner(&self, partition: PartitionNo) -> String {
        self.of(partition, "owner")
    }

    /// The pattern of all keys of a partition.
    pub fn pattern(&self, partition: PartitionNo) -> String {
        self.of(partition, "*")
    }

    /// True for one of the keys of standings, lists of periods, marks of rolling windows, event
    /// ids, entrants, positions in sources, ranked scores of a minute.
    pub fn is_of_history(&self, partition: PartitionNo, key: &str) -> bool {
        let is_of = |kind: &&str| key.starts_with(&self.of(partition, kind));
        ["z:", "periods:", "rolls:", "seen:", "entrants:", "positions:", "pace:"].iter().any(is_of)
    }

    /// True for a key that may be in a partition that no deployment has: the owner itself, the
    /// token of a recovery, the number of changes, revoked tokens, and what is staged.
    pub fn may_be_unowned(&self, partition: PartitionNo, key: &str) -> bool {
        key == self.owner(partition)
            || key == self.recovery(partition)
            || key == self.changes()
            || key == self.revoked()
            || key.starts_with(&self.of(partition, "stage:"))
    }

    /// String: `<seq> <commit id> <layout> <clock> <epoch> <deployment> <run id>` of the last
    /// commit.
    pub fn head(&self, partition: PartitionNo) -> String {
        self.of(partition, "head")
    }

    /// String: the seq up to which SQL had the commits when the log was last trimmed.
    pub fn settled(&self, partition: PartitionNo) -> String {
        self.of(partition, "settled")
    }

    /// String: the number of the last change of a board that SQL has had. One for all partitions.
    pub fn changes(&self) -> String {
        self.of(PartitionNo(0), "changes")
    }

    /// Stream: the ids of access tokens that were revoked lately. One for all partitions.
    pub fn revoked(&self) -> String {
        self.of(PartitionNo(0), "revoked")
    }

    /// Stream: commits that SQL does not have yet, after the last ones that it has.
    pub fn log(&self, partition: PartitionNo) -> String {
        self.of(partition, "log")
    }

    /// List: for each commit in the log, the bytes of the log up to its end.
    pub fn sizes(&self, partition: PartitionNo) -> String {
        self.of(partition, "sizes")
    }

    /// Hash: the event ids accepted in one bucket; see [`Dedup`](crate::store::write::Dedup).
    pub fn seen(&self, partition: PartitionNo, bucket: i64) -> String {
        self.of(partition, format_args!("seen:{bucket}"))
    }

    /// Hash: the marks of boards, by number, of their layouts and of their windows' seals; see
    /// [`BoardMark`](crate::board::mark::BoardMark) and
    /// [`SealMark`](crate::window::seal::SealMark).
    pub fn board_marks(&self, partition: PartitionNo) -> String {
        self.of(partition, "gen")
    }

    /// Sorted set: the periods of a board, segment and window that had an entry in this partition,
    /// by the instant at which each became the present one.
    pub fn periods(&self, partition: PartitionNo, id: &StandingsId) -> String {
        self.of(partition, format_args!("periods:{}.{}", id.board, id.series()))
    }

    /// Hash: the progress of each series of a board's rolling windows; see
    /// [`RollMark`](crate::window::roll::RollMark).
    pub fn rolls(&self, partition: PartitionNo, board: BoardNo) -> String {
        self.of(partition, format_args!("rolls:{board}"))
    }

    /// Hash: the members who joined a board; see
    /// [`Store::put_entrants`](super::Store::put_entrants). A layout has its own, as another one
    /// leaves members behind.
    pub fn entrants(&self, partition: PartitionNo, board: BoardNo, layout_since: u32) -> String {
        self.of(partition, format_args!("entrants:{board}.{layout_since}"))
    }

    /// Hash: the positions in sources of a board's scores; see
    /// [`Position`](crate::position::Position). A layout has its own.
    pub fn positions(&self, partition: PartitionNo, board: BoardNo, layout_since: u32) -> String {
        self.of(partition, format_args!("positions:{board}.{layout_since}"))
    }

    /// The hashes that a board has for each layout: its entrants and its positions.
    pub fn of_layout(
        &self,
        partition: PartitionNo,
        board: BoardNo,
        layout_since: u32,
    ) -> [String; 2] {
        let entrants = self.entrants(partition, board, layout_since);
        [entrants, self.positions(partition, board, layout_since)]
    }

    /// The pattern of the keys of a partition's positions of a board.
    pub fn positions_pattern(&self, partition: PartitionNo, board: BoardNo) -> String {
        self.of(partition, format_args!("positions:{board}.*"))
    }

    /// Hash: the numbers of scores of members that are ranked on a board in a minute since 1970.
    pub fn pace(&self, partition: PartitionNo, board: BoardNo, minute: i64) -> String {
        self.of(partition, format_args!("pace:{board}:{minute}"))
    }

    /// The pattern of the keys of a partition's entrants, of all boards or one.
    pub fn entrants_pattern(&self, partition: PartitionNo, board: Option<BoardNo>) -> String {
        let board = board.map_or_else(String::new, |no| format!("{no}."));
        self.of(partition, format_args!("entrants:{board}*"))
    }

    /// The pattern of the keys of a partition's lists of periods, of all boards or one.
    pub fn periods_pattern(&self, partition: PartitionNo, board: Option<BoardNo>) -> String {
        let board = board.map_or_else(String::new, |no| format!("{no}."));
        self.of(partition, format_args!("periods:{board}*"))
    }

    /// String: the token of the process that recovers the partition.
    pub fn recovery(&self, partition: PartitionNo) -> String {
        self.of(partition, "recovery")
    }

    /// A key that never exists. While a slot moves, a cluster refuses a command that names this key
    /// beside an existing one, as the two might be on different servers.
    pub fn nowhere(&self, partition: PartitionNo) -> String {
        self.of(partition, "nowhere")
    }

    /// Sorted set: one shard of the standings of a period.
    pub fn standings(&self, partition: PartitionNo, id: &StandingsId) -> String {
        self.of(partition, format_args!("z:{id}"))
    }

    /// Sorted set: one shard of staged standings, until it is renamed to its own key.
    pub fn stage(&self, partition: PartitionNo, stage: &str, id: &StandingsId) -> String {
        self.of(partition, format_args!("stage:{stage}:{id}"))
    }

    /// String: exists while everything staged under an id does.
    pub fn stage_mark(&self, partition: PartitionNo, stage: &str) -> String {
        self.of(partition, format_args!("stage:{stage}"))
    }

    /// The pattern of all keys of a partition's standings, or of one board's.
    pub fn standings_pattern(&self, partition: PartitionNo, board: Option<BoardNo>) -> String {
        let board = board.map_or_else(String::new, |no| format!("{no}."));
        self.of(partition, format_args!("z:{board}*"))
    }

    /// The pattern of the keys of standings in every partition, of all boards or one.
    pub fn any_standings_pattern(&self, board: Option<BoardNo>) -> String {
        let board = board.map_or_else(String::new, |no| format!("{no}."));
        format!("{}:{{*}}:z:{board}*", self.prefix)
    }

    /// The pattern of the keys of a board's lists of periods in every partition.
    pub fn any_periods_pattern(&self, board: BoardNo) -> String {
        format!("{}:{{*}}:periods:{board}.*", self.prefix)
    }

    /// A pattern that the keys of standings and of lists of periods match, of all partitions or
    /// one, and of all boards or one. Some keys of other boards match it, too.
    pub fn series_pattern(&self, partition: Option<PartitionNo>, board: Option<BoardNo>) -> String {
        let partition = partition.map_or_else(|| "*".to_owned(), |no| no.to_string());
        let board = board.map_or_else(|| "*".to_owned(), |no| format!("{no}.*"));
        format!("{}:{{{partition}}}:[pz]*:{board}", self.prefix)
    }

    /// The partition of one of Laurel's keys.
    pub fn partition_of(&self, key: &str) -> Option<PartitionNo> {
        let (partition, _) = key.strip_prefix(&self.prefix)?.strip_prefix(":{")?.split_once('}')?;
        partition.parse().ok().map(PartitionNo)
    }

    /// The standings that a key names; `None` for a key that Laurel does not write.
    pub fn parse_standings(&self, partition: PartitionNo, key: &str) -> Option<StandingsId> {
        let rest = key.strip_prefix(&self.of(partition, "z:"))?;
        let mut parts = rest.split(':');
        let (board, generation) = parts.next()?.split_once('.')?;
        let id = StandingsId {
            board: BoardNo(board.parse().ok()?),
            generation: generation.parse().ok()?,
            segment: unescape(parts.next()?),
            window: unescape(parts.next()?).parse().ok()?,
            period: unescape(parts.next()?),
        };
        (parts.next().is_none() && self.standings(partition, &id) == key).then_some(id)
    }

    /// The window of a key of standings or of a list of periods, and the generation that began it;
    /// `None` for a key that Laurel does not write.
    pub fn window_of(&self, partition: PartitionNo, key: &str) -> Option<(Window, u32)> {
        if let Some(id) = self.parse_standings(partition, key) {
            return Some((id.window, id.generation));
        }
        let list = self.parse_periods(partition, key)?;
        Some((list.window, list.generation))
    }

    /// The window of a board whose periods a key lists; `None` for a key that Laurel does not
    /// write.
    pub fn parse_periods(&self, partition: PartitionNo, key: &str) -> Option<SealName> {
        let mut parts = key.strip_prefix(&self.of(partition, "periods:"))?.split(':');
        let (board, generation) = parts.next()?.split_once('.')?;
        Some(SealName {
            board: BoardNo(board.parse().ok()?),
            generation: generation.parse().ok()?,
            window: unescape(parts.nth(1)?).parse().ok()?,
        })
    }

    fn of(&self, partition: PartitionNo, what: impl std::fmt::Display) -> String {
        format!("{}:{{{partition}}}:{what}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_prefix_with_braces_is_refused() {
        for bad in ["", "a{b}", "a b", "*", &"x".repeat(65)] {
            assert!(KeySpace::new(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_key_of_standings_names_them(no in 1_i64.., generation: u32, segment in ".*", period in "[0-9:%TW+-]{0,20}", window in proptest::sample::select(&["all", "hourly", "7d", "3mo", "decay:7d"][..])) {
            let keys = KeySpace::new("laurel").unwrap();
            let window = window.parse().unwrap();
            let id = StandingsId { board: BoardNo(no), generation, segment, window, period };
            let key = keys.standings(PartitionNo(3), &id);
            prop_assert_eq!(keys.parse_standings(PartitionNo(3), &key), Some(id.clone()));
            prop_assert_eq!(keys.window_of(PartitionNo(3), &keys.periods(PartitionNo(3), &id)), Some((window, generation)));
            let list = SealName { board: BoardNo(no), generation, window };
            prop_assert_eq!(keys.parse_periods(PartitionNo(3), &keys.periods(PartitionNo(3), &id)), Some(list));
            prop_assert_eq!(keys.parse_periods(PartitionNo(3), &key), None);
            prop_assert_eq!(keys.parse_standings(PartitionNo(4), &key), None);
        }
    }
}
