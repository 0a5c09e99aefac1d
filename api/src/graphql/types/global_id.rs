//! Global ids, as readable text: `board:redis.7`, `member:u42`, `window:redis.7:daily`,
//! `period:redis.7:daily:2025-09-03`, `standings:redis.7:daily:2025-09-03:`,
//! `entry:redis.7:all:all::u42`, `anonymousEntry:redis.7:all:all::Zm9v`,
//! `friendEntry:redis.7:all:all::u42:u43`, `event:3:120:0`, `job:17`, `integrityRun:5`,
//! `finding:5:0`, `accessToken:57c22c6e00b5`, `quarantined:9`, `auditEntry:4`, `memberReport:2`,
//! `erasureReceipt:57c22c6e00b5`, `webhook:57c22c6e00b5`.
//!
//! A board has its slug and its number, which is never used again, so that another board of the
//! same slug is another object.

use engine::webhook::message::event_id;
use ranking::commit::EventPlace;
use ranking::id::PartitionNo;
use ranking::standings_id::{escape, unescape};

use crate::cache::boards::CachedBoard;

/// An object, as a global id names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GlobalId {
    /// A board.
    Board(BoardName),
    /// A member by its key.
    Member(String),
    /// A window of a board by its name.
    Window(BoardName, String),
    /// A period of a window of a board by its label.
    Period(BoardName, String, String),
    /// Standings.
    Standings(StandingsName),
    /// A member's entry in standings.
    Entry(StandingsName, String),
    /// The entry in standings of a member that the client does not see, by its sealed key.
    AnonymousEntry(StandingsName, String),
    /// A member's friend in standings: the member, the friend.
    FriendEntry(StandingsName, String, String),
    /// An event.
    Event(EventPlace),
    /// A job by its number.
    Job(i64),
    /// A partition by its number.
    Partition(u16),
    /// A run of the integrity diff by its number.
    IntegrityRun(i64),
    /// A finding by the number of its run and its index there.
    Finding(i64, i64),
    /// An access token by its own id.
    AccessToken(String),
    /// A score in quarantine by its number.
    Quarantined(i64),
    /// An act of the audit log by its number.
    AuditEntry(i64),
    /// A report of a member by its number.
    MemberReport(i64),
    /// The receipt of an erasure by its own id.
    ErasureReceipt(String),
    /// A webhook by its own id.
    Webhook(String),
}

/// The name of a board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoardName {
    /// The slug.
    pub slug: String,
    /// The number.
    pub no: i64,
}

/// The name of standings, in words that clients know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandingsName {
    /// The board.
    pub board: BoardName,
    /// The window's name.
    pub window: String,
    /// The period's label.
    pub period: String,
    /// The segment; empty for everyone.
    pub segment: String,
}

impl GlobalId {
    /// The text of the id.
    pub fn to_text(&self) -> String {
        match self {
            Self::Board(board) => format!("board:{}", board.to_text()),
            Self::Member(key) => format!("member:{key}"),
            Self::Window(board, window) => format!("window:{}:{}", board.to_text(), escape(window)),
            Self::Period(board, window, label) => {
                format!("period:{}:{}:{}", board.to_text(), escape(window), escape(label))
            }
            Self::Standings(name) => format!("standings:{}", name.to_text()),
            Self::Entry(name, member) => format!("entry:{}:{member}", name.to_text()),
            Self::AnonymousEntry(name, sealed) => {
                format!("anonymousEntry:{}:{sealed}", name.to_text())
            }
            Self::FriendEntry(name, member, friend) => {
                format!("friendEntry:{}:{}:{friend}", name.to_text(), escape(member))
            }
            Self::Event(place) => event_id(place),
            Self::Job(number) => format!("job:{number}"),
            Self::Partition(number) => format!("partition:{number}"),
            Self::IntegrityRun(number) => format!("integrityRun:{number}"),
            Self::Finding(run, index) => format!("finding:{run}:{index}"),
            Self::AccessToken(id) => format!("accessToken:{id}"),
            Self::Quarantined(number) => format!("quarantined:{number}"),
            Self::AuditEntry(number) => format!("auditEntry:{number}"),
            Self::MemberReport(number) => format!("memberReport:{number}"),
            Self::ErasureReceipt(id) => format!("erasureReceipt:{id}"),
            Self::Webhook(id) => format!("webhook:{id}"),
        }
    }

    /// Parses an id; `None` if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "board" => BoardName::parse(rest).map(Self::Board),
            "member" => Some(Self::Member(rest.to_owned())),
            "window" => {
                let (board, window) = rest.split_once(':')?;
                Some(Self::Window(BoardName::parse(board)?, unescape(window)))
            }
            "period" => {
                let [board, window, label] = parts(rest)?;
                Some(Self::Period(BoardName::parse(board)?, unescape(window), unescape(label)))
            }
            "standings" => StandingsName::parse(parts(rest)?).map(Self::Standings),
            "entry" => {
                let [board, window, period, segment, member] = parts(rest)?;
                let name = StandingsName::parse([board, window, period, segment])?;
                Some(Self::Entry(name, member.to_owned()))
            }
            "anonymousEntry" => {
                let [board, window, period, segment, sealed] = parts(rest)?;
                let name = StandingsName::parse([board, window, period, segment])?;
                Some(Self::AnonymousEntry(name, sealed.to_owned()))
            }
            "friendEntry" => {
                let [board, window, period, segment, member, friend] = parts(rest)?;
                let name = StandingsName::parse([board, window, period, segment])?;
                Some(Self::FriendEntry(name, unescape(member), friend.to_owned()))
            }
            "accessToken" => Some(Self::AccessToken(rest.to_owned())),
            "erasureReceipt" => Some(Self::ErasureReceipt(rest.to_owned())),
            "webhook" => Some(Self::Webhook(rest.to_owned())),
            "job" => rest.parse().ok().map(Self::Job),
            "partition" => rest.parse().ok().map(Self::Partition),
            "quarantined" => rest.parse().ok().map(Self::Quarantined),
            "auditEntry" => rest.parse().ok().map(Self::AuditEntry),
            "memberReport" => rest.parse().ok().map(Self::MemberReport),
            "integrityRun" => rest.parse().ok().map(Self::IntegrityRun),
            "finding" => {
                let (run, index) = rest.split_once(':')?;
                Some(Self::Finding(run.parse().ok()?, index.parse().ok()?))
            }
            "event" => {
                let [partition, seq, index] = parts(rest)?;
                Some(Self::Event(EventPlace {
                    partition: PartitionNo(partition.parse().ok()?),
                    seq: seq.parse().ok()?,
                    index: index.parse().ok()?,
                }))
            }
            _ => None,
        }
    }
}

/// The parts of a text, the last of which may have colons.
fn parts<const COUNT: usize>(text: &str) -> Option<[&str; COUNT]> {
    text.splitn(COUNT, ':').collect::<Vec<_>>().try_into().ok()
}

impl BoardName {
    /// The name of a board.
    pub fn of(board: &CachedBoard) -> Self {
        Self { slug: board.row.slug.clone(), no: board.row.no }
    }

    fn to_text(&self) -> String {
        format!("{}.{}", self.slug, self.no)
    }

    fn parse(text: &str) -> Option<Self> {
        let (slug, no) = text.split_once('.')?;
        Some(Self { slug: slug.to_owned(), no: no.parse().ok()? })
    }
}

impl StandingsName {
    fn to_text(&self) -> String {
        let rest = [&self.window, &self.period, &self.segment].map(|part| escape(part)).join(":");
        format!("{}:{rest}", self.board.to_text())
    }

    fn parse([board, window, period, segment]: [&str; 4]) -> Option<Self> {
        let [window, period, segment] = [window, period, segment].map(unescape);
        Some(Self { board: BoardName::parse(board)?, window, period, segment })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parsed_text_is_the_same_id() {
        let board = BoardName { slug: "b".into(), no: 7 };
        let name = StandingsName {
            board: board.clone(),
            window: "hourly".into(),
            period: "2025-10-26T01+01:00".into(),
            segment: "region:eu%".into(),
        };
        let ids = [
            GlobalId::Board(board.clone()),
            GlobalId::Member("a:b%3A".into()),
            GlobalId::Standings(name.clone()),
            GlobalId::Entry(name.clone(), "x:y::".into()),
            GlobalId::FriendEntry(name, "x:y%:".into(), "y::%3A".into()),
            GlobalId::Window(board.clone(), "decay:7d".into()),
            GlobalId::Period(board, "hourly".into(), "2025-10-26T01+01:00".into()),
            GlobalId::Event(EventPlace { partition: PartitionNo(3), seq: 120, index: 7 }),
            GlobalId::Job(17),
            GlobalId::Partition(3),
            GlobalId::IntegrityRun(5),
            GlobalId::Finding(5, 0),
            GlobalId::AccessToken("57c22c6e00b5".into()),
            GlobalId::Quarantined(9),
            GlobalId::AuditEntry(4),
            GlobalId::MemberReport(2),
            GlobalId::ErasureReceipt("57c22c6e00b5".into()),
        ];
        for id in ids {
            assert_eq!(GlobalId::parse(&id.to_text()), Some(id));
        }
        for text in [
            "",
            "board",
            "board:b",
            "board:b.x",
            "user:1",
            "window:b.1",
            "period:b.1:daily",
            "standings:a.1:b",
            "standings:a:all:all:",
            "entry:a.1:b:c:d",
            "friendEntry:a.1:b:c:d:e",
            "finding:1",
            "event:1:2",
            "event:1:2:3:4",
            "event:x:2:3",
            "job:",
            "job:1:2",
            "integrityRun:x",
        ] {
            assert_eq!(GlobalId::parse(text), None, "{text}");
        }
    }
}
