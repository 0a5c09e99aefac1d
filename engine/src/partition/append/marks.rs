//! The marks of members in SQL: those that were merged, are banned, or are being changed.

use std::collections::HashMap;

use ranking::id::MemberId;
use ranking::merge::MemberMark;

use crate::deployment::Deployment;
use entity::error::Result;
use entity::member::{ban, erasure, merge};

/// The rows of one SELECT.
const ROWS_MAX: u64 = 1000;

/// The marks of members that have one.
pub type MemberMarks = HashMap<MemberId, MemberMark>;

impl Deployment {
    /// The marks of all members, as a partition that is loaded gets them. Memory grows with their
    /// number.
    ///
    /// # Errors
    /// `Corrupt` if a row was edited by hand and cannot be read.
    pub async fn member_marks(&self) -> Result<MemberMarks> {
        let (mut marks, mut last) = (MemberMarks::new(), String::new());
        loop {
            let rows = merge::page_after(&self.db, &last, ROWS_MAX).await?;
            let Some(row) = rows.last() else { break };
            last = row.source.clone();
            for row in &rows {
                marks
                    .extend(row.marks()?.into_iter().filter(|(_, mark)| *mark != MemberMark::None));
            }
        }
        last.clear();
        loop {
            let rows = ban::page_after(&self.db, &last, ROWS_MAX).await?;
            let Some(row) = rows.last() else { break };
            last = row.member.clone();
            for row in &rows {
                let mark = row.mark()?;
                if mark != MemberMark::None {
                    marks.insert(MemberId::new(&row.member)?, mark);
                }
            }
        }
        for row in erasure::under_way(&self.db, i64::MAX).await? {
            if row.mark() != MemberMark::None {
                marks.insert(row.member_id()?, row.mark());
            }
        }
        Ok(marks)
    }
}
