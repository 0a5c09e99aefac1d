//! Merges of members: a partition's record of a member that takes part in one, by which it refuses
//! what arrives for that member.

use crate::error::{Error, Result};
use crate::id::MemberId;

/// The state of a member, as a partition records it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MemberMark {
    /// The member takes part in no merge.
    #[default]
    None,
    /// The member is being merged, or another one is being merged into it: the partition accepts
    /// nothing for it until that is over.
    Held,
    /// The member was merged into this one: the partition accepts nothing for it.
    Merged(MemberId),
}

impl MemberMark {
    /// Reads the text in a partition; none means no merge.
    ///
    /// # Errors
    /// `Corrupt` if the text is not `held`, or `into` and a member.
    pub fn parse(text: Option<&str>) -> Result<Self> {
        let Some(text) = text else {
            return Ok(Self::None);
        };
        let target = text.strip_prefix("into ").and_then(|target| MemberId::new(target).ok());
        match (text, target) {
            ("held", _) => Ok(Self::Held),
            (_, Some(target)) => Ok(Self::Merged(target)),
            _ => Err(Error::corrupt(format!("{text:?} is not a mark of a member"))),
        }
    }

    /// The text that [`Self::parse`] reads.
    pub fn to_text(&self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Held => Some("held".to_owned()),
            Self::Merged(target) => Some(format!("into {target}")),
        }
    }

    /// Checks that the member takes scores and amendments.
    ///
    /// # Errors
    /// `MemberHeld` while it takes part in a merge; `MemberMerged` once it was merged.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::None => Ok(()),
            Self::Held => Err(Error::MemberHeld),
            Self::Merged(target) => Err(Error::MemberMerged(target.clone())),
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
        for mark in [MemberMark::None, MemberMark::Held, MemberMark::Merged(target)] {
            assert_eq!(MemberMark::parse(mark.to_text().as_deref()), Ok(mark));
        }
        for bad in ["", "into", "into ", "7", "deleted"] {
            assert!(MemberMark::parse(Some(bad)).is_err(), "{bad}");
        }
    }
}
