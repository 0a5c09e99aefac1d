//! What can be written.

use async_graphql::{Context, ID, Object, Result};

use super::board::Board;
use super::board::input::{
    BoardPayload, CreateBoardInput, DeleteBoardPayload, UpdateBoardInput, create, delete, update,
};
use super::event::{RemoveEntryPayload, VoidEventPayload, remove_entry, void_event};
use super::member::friend::{FriendPayload, add_friend, remove_friend};
use super::member::input::{MemberInput, MembersPayload, upsert};
use super::request::{app, state};
use super::submission::{SubmitScoresInput, SubmitScoresPayload, submit};
use crate::access::Scope;

/// What can be written. Every mutation needs an access token.
pub struct Mutation;

/// What can be written. Every mutation needs an access token.
#[Object]
impl Mutation {
    /// Creates a board. Needs the scope admin.
    async fn create_board(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The rules of the board.")] input: CreateBoardInput,
    ) -> Result<BoardPayload> {
        state(ctx).require(Scope::Admin)?;
        let board = Board(create(app(ctx), input).await?);
        Ok(BoardPayload { board })
    }

    /// Changes a board's title, windows, who may read it, whether members submit themselves, when it takes scores. Needs the scope admin.
    async fn update_board(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "What is to change.")] input: UpdateBoardInput,
    ) -> Result<BoardPayload> {
        state(ctx).require(Scope::Admin)?;
        let board = Board(update(app(ctx), input).await?);
        Ok(BoardPayload { board })
    }

    /// Deletes a board for good, with its history, its standings and what is in flight. Its slug may be used again, for another board.
    /// Needs the scope admin.
    async fn delete_board(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The board's slug.")] slug: String,
    ) -> Result<DeleteBoardPayload> {
        state(ctx).require(Scope::Admin)?;
        let deleted = delete(app(ctx), &slug).await?;
        state(ctx).loaders.clear().await;
        Ok(deleted)
    }

    /// Submits scores to a board. Needs the scope submit. Each score is taken or refused for itself: read its status.
    async fn submit_scores(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The board and the scores.")] input: SubmitScoresInput,
    ) -> Result<SubmitScoresPayload> {
        Ok(submit(ctx, input).await?)
    }

    /// Takes a member off a board, in every window and period. Its history stays, with this removal as one more event; scores that come
    /// later count from nothing. Needs the scope admin.
    async fn remove_entry(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The board's slug.")] board: String,
        #[graphql(desc = "The member's key.")] member: String,
    ) -> Result<RemoveEntryPayload> {
        state(ctx).require(Scope::Admin)?;
        Ok(remove_entry(ctx, &board, &member).await?)
    }

    /// Voids one event, a score or a removal: every standings is as if it had never been. The void is an event itself; it cannot be voided.
    /// The event's `eventId` may be sent again. Refused where what is left would leave the board's range. Needs the scope admin.
    async fn void_event(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The event's global id, from Member.events.")] id: ID,
    ) -> Result<VoidEventPayload> {
        state(ctx).require(Scope::Admin)?;
        Ok(void_event(ctx, &id).await?)
    }

    /// Creates members, or changes what they are called; 1 to 1,000 at once, all or none. Needs the scope admin.
    async fn upsert_members(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The members.")] input: Vec<MemberInput>,
    ) -> Result<MembersPayload> {
        state(ctx).require(Scope::Admin)?;
        let members = upsert(app(ctx), input).await?;
        state(ctx).loaders.clear().await;
        Ok(MembersPayload { members })
    }

    /// Makes two members friends of each other; nothing where they are. A member has at most 10,000. Needs the scope submit; a member's own
    /// token makes friends of that member only.
    async fn add_friend(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "A member's key.")] member: String,
        #[graphql(desc = "The other one's key.")] friend: String,
    ) -> Result<FriendPayload> {
        Ok(add_friend(ctx, &member, &friend).await?)
    }

    /// Ends a friendship, for both; nothing where there is none. Needs the scope submit; a member's own token ends those of that member
    /// only.
    async fn remove_friend(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "A member's key.")] member: String,
        #[graphql(desc = "The other one's key.")] friend: String,
    ) -> Result<FriendPayload> {
        Ok(remove_friend(ctx, &member, &friend).await?)
    }
}
