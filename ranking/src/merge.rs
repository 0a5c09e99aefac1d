//! The marks of members: a partition's record of a member that takes part in a merge or is banned,
//! by which it does not rank what arrives for that member.

use std::collections::BTreeSet;

use crate::board::fair_play::Suspicion;
use crate::error::{Error, Result};
use crate::id::{BoardNo, MemberId};

/// The state of a member, as a partition records it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MemberMark {
    /// The member takes part in no merge and is not banned.
    #[default]
    None,
    /// The member is being merged, or another one is being merged into it: the partition accepts
    /// nothing for it until that is over.
    Held,
    /// The member was merged into this one: the partition accepts nothing for it.
    Merged(MemberId),
    /// The member is banned: the partition ranks no score of it there.
    Banned(Ban),
}

/// The boards that a member is banned from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ban {
    /// All of them, also those that are made later.
    Everywhere,
    /// These.
    Boards(BTreeSet<BoardNo>),
}

impl Ban {
    /// True if a board is one of them.
    pub fn covers(&self, board: BoardNo) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Boards(boards) => boards.contains(&board),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        if text == "everywhere" {
            return Some(Self::Everywhere);
        }
        let boards = text.split(' ').map(|no| no.parse().ok().map(BoardNo));
        boards.collect::<Option<_>>().map(Self::Boards)
    }

    fn to_text(&self) -> String {
        match self {
            Self::Everywhere => "everywhere".to_owned(),
            Self::Boards(boards) => {
                boards.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

impl MemberMark {
    /// Reads the text in a partition; none means no merge and no ban.
    ///
    /// # Errors
    /// `Corrupt` if the text is not `held`, or `into` and a member, or `banned` and boards.
    pub fn parse(text: Option<&str>) -> Result<Self> {
        let Some(text) = text else {
            return Ok(Self::None);
        };
        let target = text.strip_prefix("into ").and_then(|target| MemberId::new(target).ok());
        let ban = text.strip_prefix("banned ").and_then(Ban::parse);
        match (text, target, ban) {
            ("held", _, _) => Ok(Self::Held),
            (_, Some(target), _) => Ok(Self::Merged(target)),
            (_, _, Some(ban)) => Ok(Self::Banned(ban)),
            _ => Err(Error::corrupt(format!("{text:?} is not a mark of a member"))),
        }
    }

    /// The text that [`Self::parse`] reads.
    pub fn to_text(&self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Held => Some("held".to_owned()),
            Self::Merged(target) => Some(format!("into {target}")),
            Self::Banned(ban) => Some(format!("banned {}", ban.to_text())),
        }
    }

    /// Checks that the member takes amendments, and scores where it is not banned.
    ///
    /// # Errors
    /// `MemberHeld` while it takes part in a merge; `MemberMerged` once it was merged.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::None | Self::Banned(_) => Ok(()),
            Self::Held => Err(Error::MemberHeld),
            Self::Merged(target) => Err(Error::MemberMerged(target.clone())),
        }
    }

    /// Checks that the member is not banned from a board.
    ///
    /// # Errors
    /// `Suspicious` if it is.
    pub fn check_ban(&self, board: BoardNo) -> Result<()> {
        match self {
            Self::Banned(ban) if ban.covers(board) => Err(Error::Suspicious(
                Suspicion::Banned,
                "the member is banned from this board".to_owned(),
            )),
            _ => Ok(()),
        }
    }
}

/// The field of a member's mark in a partition's hash of marks.
pub(crate) fn member_field(member: &MemberId) -> String {
    format!("member:{member}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_s_text_says_it_again() {
        let target = MemberId::new("held").unwrap();
        let boards = Ban::Boards([BoardNo(3), BoardNo(17)].into());
        for mark in [
            MemberMark::None,
            MemberMark::Held,
            MemberMark::Merged(target),
            MemberMark::Banned(Ban::Everywhere),
            MemberMark::Banned(boards),
        ] {
            assert_eq!(MemberMark::parse(mark.to_text().as_deref()), Ok(mark));
        }
        for bad in
            ["", "into", "into ", "7", "deleted", "banned", "banned ", "banned x", "banned 1  2"]
        {
            assert!(MemberMark::parse(Some(bad)).is_err(), "{bad}");
        }
    }
}
