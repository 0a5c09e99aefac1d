//! Global ids, as readable text: `board:redis`, `member:u42`, `standings:redis:daily:2025-09-03:`,
//! `entry:redis:all:all::u42`, `event:3:120:0`, `job:17`, `integrityRun:5`.

use ranking::commit::EventPlace;
use ranking::id::PartitionNo;
use ranking::standings_id::{escape, unescape};

/// An object, as a global id names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GlobalId {
    /// A board by its slug.
    Board(String),
    /// A member by its key.
    Member(String),
    /// Standings.
    Standings(StandingsName),
    /// A member's entry in standings.
    Entry(StandingsName, String),
    /// An event.
    Event(EventPlace),
    /// A job by its number.
    Job(i64),
    /// A run of the integrity diff by its number.
    IntegrityRun(i64),
}

/// The name of standings, in words that clients know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandingsName {
    /// The board's slug.
    pub board: String,
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
            Self::Board(slug) => format!("board:{slug}"),
            Self::Member(key) => format!("member:{key}"),
            Self::Standings(name) => format!("standings:{}", name.to_text()),
            Self::Entry(name, member) => format!("entry:{}:{member}", name.to_text()),
            Self::Event(place) => {
                format!("event:{}:{}:{}", place.partition, place.seq, place.index)
            }
            Self::Job(number) => format!("job:{number}"),
            Self::IntegrityRun(number) => format!("integrityRun:{number}"),
        }
    }

    /// Parses an id; `None` if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "board" => Some(Self::Board(rest.to_owned())),
            "member" => Some(Self::Member(rest.to_owned())),
            "standings" => Some(Self::Standings(StandingsName::parse(
                &rest.splitn(4, ':').collect::<Vec<_>>(),
            )?)),
            "entry" => {
                let parts: Vec<&str> = rest.splitn(5, ':').collect();
                let (member, name) = parts.split_last()?;
                Some(Self::Entry(StandingsName::parse(name)?, (*member).to_owned()))
            }
            "job" => rest.parse().ok().map(Self::Job),
            "integrityRun" => rest.parse().ok().map(Self::IntegrityRun),
            "event" => {
                let mut parts = rest.split(':');
                let place = EventPlace {
                    partition: PartitionNo(parts.next()?.parse().ok()?),
                    seq: parts.next()?.parse().ok()?,
                    index: parts.next()?.parse().ok()?,
                };
                parts.next().is_none().then_some(Self::Event(place))
            }
            _ => None,
        }
    }
}

impl StandingsName {
    fn to_text(&self) -> String {
        [&self.board, &self.window, &self.period, &self.segment].map(|part| escape(part)).join(":")
    }

    fn parse(parts: &[&str]) -> Option<Self> {
        let [board, window, period, segment] = <[&str; 4]>::try_from(parts).ok()?.map(unescape);
        Some(Self { board, window, period, segment })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parsed_text_is_the_same_id() {
        let name = StandingsName {
            board: "b".into(),
            window: "hourly".into(),
            period: "2025-10-26T01+01:00".into(),
            segment: "region:eu%".into(),
        };
        let ids = [
            GlobalId::Board("b".into()),
            GlobalId::Member("a:b%3A".into()),
            GlobalId::Standings(name.clone()),
            GlobalId::Entry(name, "x:y::".into()),
            GlobalId::Event(EventPlace { partition: PartitionNo(3), seq: 120, index: 7 }),
            GlobalId::Job(17),
            GlobalId::IntegrityRun(5),
        ];
        for id in ids {
            assert_eq!(GlobalId::parse(&id.to_text()), Some(id));
        }
        for text in [
            "",
            "board",
            "user:1",
            "standings:a:b",
            "entry:a:b:c:d",
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
