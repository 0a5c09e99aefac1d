//! The members who joined boards, of a partition that is loaded from SQL.

use entity::board::entrant;
use entity::error::Result;
use ranking::board::Board;
use ranking::id::MemberId;
use ranking::store::recovery::Recovery;
use ranking::store::write::Writes;

use super::ROWS_MAX;
use crate::partition::Partition;
use crate::partition::recovery::in_time;

impl Partition<'_> {
    /// Restores the members who joined, of those boards that members join.
    pub(super) async fn load_entrants(
        self,
        recovery: &Recovery,
        boards: impl Iterator<Item = &Board> + Send,
    ) -> Result<()> {
        for board in boards.filter(|board| board.is_joined) {
            self.load_entrants_of(recovery, board).await?;
        }
        Ok(())
    }

    async fn load_entrants_of(self, recovery: &Recovery, board: &Board) -> Result<()> {
        let (keys, partitions) = (self.store.keys(), self.store.partitions());
        let mut last = String::new();
        loop {
            let page = in_time(entrant::after(&self.db, board.no.0, &last, ROWS_MAX)).await?;
            let Some(end) = page.last() else { return Ok(()) };
            last = end.member.clone();
            let members = page.into_iter().filter_map(|row| {
                // A row that was edited by hand keeps no other one out.
                let member = MemberId::new(&row.member).ok()?;
                (partitions.of_member(board, &member) == self.no).then_some((member, row.no))
            });
            let mut writes = Writes::default();
            writes.set_entrants(keys, self.no, board, &members.collect::<Vec<_>>());
            recovery.apply(&writes).await?;
        }
    }
}
