//! The boards of a member: its profile.

use std::sync::Arc;

use async_graphql::connection::{Connection, ConnectionNameType, Edge, EdgeNameType, EmptyFields};
use async_graphql::{Context, Object, OutputType, Result};
use entity::board as row;
use ranking::id::MemberId;

use crate::cache::boards::CachedBoard;
use crate::graphql::board::Board;
use crate::graphql::price;
use crate::graphql::request::{app, state};
use crate::graphql::sight::is_hidden;
use crate::graphql::standings::entry::Entry;
use crate::graphql::standings::{Standings, StandingsOf};
use crate::graphql::types::connection::{PageCursor, limit};

/// A page of the boards of a member.
pub type MemberBoards =
    Connection<PageCursor, Board, EmptyFields, OnBoard, MemberBoardName, MemberBoardName>;

/// The name of a connection, or of its edges.
pub struct MemberBoardName;

impl ConnectionNameType for MemberBoardName {
    fn type_name<T: OutputType>() -> String {
        "MemberBoardConnection".to_owned()
    }
}

impl EdgeNameType for MemberBoardName {
    fn type_name<T: OutputType>() -> String {
        "MemberBoardEdge".to_owned()
    }
}

/// The member on a board.
pub struct OnBoard {
    member: MemberId,
    board: Arc<CachedBoard>,
}

/// The member on a board.
#[Object]
impl OnBoard {
    /// The member's entry on the board; null if it is not in these standings.
    async fn entry(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The standings; everyone in \"all\" by default.")] of: Option<StandingsOf>,
    ) -> Result<Option<Entry>> {
        let standings = Standings::choose(ctx, &self.board, of.into()).await?;
        Ok(Box::pin(standings.entry_of(ctx, self.member.clone())).await?)
    }
}

/// A page of the boards on which a member has an entry in "all" and that the client may see, oldest
/// board first.
pub(crate) async fn page(
    ctx: &Context<'_>,
    key: &str,
    first: Option<i32>,
    after: Option<&str>,
) -> crate::error::Result<MemberBoards> {
    let _reading = state(ctx).loaders.reading();
    let member = MemberId::new(key)?;
    let limit = limit("first", first)?;
    let place = after.map(PageCursor::place::<i64>).transpose();
    let place = place.map_err(|error| error.at("after"))?;
    state(ctx).spend(price::select(limit + 1)).await?;
    let db = &app(ctx).deployment.reads;
    if is_hidden(ctx, key).await {
        return Ok(MemberBoards::new(place.is_some(), false));
    }
    let (rows, has_next) = row::of_member(db, key, state(ctx).seen(), place, limit).await?;
    price::pay_boards(ctx, &rows).await?;
    let mut page = MemberBoards::new(place.is_some(), has_next);
    for row in rows {
        let (cursor, board) = (PageCursor::of(&row.no), CachedBoard::new(row)?);
        let on_board = OnBoard { member: member.clone(), board: board.clone() };
        page.edges.push(Edge::with_additional_fields(cursor, Board(board), on_board));
    }
    Ok(page)
}
