//! The mutations. Each begins a change, which goes on to its end also without a client.

mod operation;

use async_graphql::{Context, MergedObject, Object, Result};

use super::audit::writer::Audit;
use super::board::deletion::{DeleteBoardInput, DeleteBoardPayload, delete};
use super::board::input::{
    CreateBoardInput, CreateBoardPayload, UpdateBoardInput, UpdateBoardPayload, create, update,
};
use super::board::joining::{
    JoinBoardInput, JoinBoardPayload, LeaveBoardInput, LeaveBoardPayload, join_board, leave_board,
};
use super::board::season::{
    AddSeasonInput, AddSeasonPayload, RemoveSeasonInput, RemoveSeasonPayload, add_season,
    remove_season,
};
use super::event::amendment::{
    RemoveEntryInput, RemoveEntryPayload, VoidEventInput, VoidEventPayload, remove_entry,
    void_event,
};
use super::event::removal::{
    RemoveEntriesInput, RemoveEntriesPayload, ResetBoardInput, ResetBoardPayload, ResetPeriodInput,
    ResetPeriodPayload, remove_entries, reset_board, reset_period,
};
use super::guard::Needs;
use super::member::ban::{
    BanMemberInput, BanMemberPayload, LiftBanInput, LiftBanPayload, ban_member, lift_ban,
};
use super::member::erasure::{EraseMemberInput, EraseMemberPayload, erase_member};
use super::member::friendship::{
    AddFriendInput, AddFriendPayload, RemoveFriendInput, RemoveFriendPayload, add_friend,
    remove_friend,
};
use super::member::input::{UpsertMembersInput, UpsertMembersPayload, upsert};
use super::member::merge::{MergeMembersInput, MergeMembersPayload, merge};
use super::member::quarantine::{
    ReleaseQuarantinedInput, ReleaseQuarantinedPayload, VoidQuarantinedInput,
    VoidQuarantinedPayload, release_quarantined, void_quarantined,
};
use super::member::report::{
    ReportMemberInput, ReportMemberPayload, ResolveReportInput, ResolveReportPayload,
    report_member, resolve_report,
};
use super::member::visibility::{SetVisibilityInput, SetVisibilityPayload, set_visibility};
use super::request::state;
use super::submission::{SubmitScoresInput, SubmitScoresPayload, submit};
use crate::access::scope::Scope;
use operation::OperationMutation;

/// All writes. Every mutation needs an access token.
#[derive(MergedObject, Default)]
pub struct Mutation(GameMutation, OperationMutation);

/// Changes of boards, scores and members.
#[derive(Default)]
pub struct GameMutation;

#[Object]
impl GameMutation {
    /// Creates a board. Needs scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Admin)")]
    async fn create_board(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The rules of the board.")] input: CreateBoardInput,
    ) -> Result<Option<CreateBoardPayload>> {
        let audit = Audit::of(ctx);
        audit.end(create(ctx, &audit, input).await).await
    }

    /// Changes a board's title and other display, windows, visibility, `selfSubmit`, or the times
    /// for which it accepts scores. Needs scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Admin)")]
    async fn update_board(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The changes.")] input: UpdateBoardInput,
    ) -> Result<Option<UpdateBoardPayload>> {
        let audit = Audit::of(ctx);
        audit.end(update(ctx, &audit, input).await).await
    }

    /// Deletes a board for good, with its history, its standings and all submissions in flight. Its
    /// slug may be used again, for another board. Needs scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Admin)")]
    async fn delete_board(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The board.")] input: DeleteBoardInput,
    ) -> Result<Option<DeleteBoardPayload>> {
        let audit = Audit::of(ctx);
        audit.end(delete(ctx, &audit, &input.slug).await).await
    }

    /// Lists a season of a board, which must have the window "season". Scores that the board has
    /// already count in it. Needs scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Admin)")]
    async fn add_season(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The board and the season.")] input: AddSeasonInput,
    ) -> Result<Option<AddSeasonPayload>> {
        let audit = Audit::of(ctx);
        audit.end(add_season(ctx, &audit, &input).await).await
    }

    /// Takes back a season that has not begun; does nothing if the board has none of that name.
    /// Needs scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Admin)")]
    async fn remove_season(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The board and the season.")] input: RemoveSeasonInput,
    ) -> Result<Option<RemoveSeasonPayload>> {
        let audit = Audit::of(ctx);
        audit.end(remove_season(ctx, &audit, &input).await).await
    }

    /// Lets a member join a board that was created with `joining`; does nothing if it has joined.
    /// Refused with ENTRANTS_FULL if the board has as many entrants as it may have. Needs scope
    /// submit for a member's own token, and otherwise scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Submit)")]
    async fn join_board(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The board and the member.")] input: JoinBoardInput,
    ) -> Result<Option<JoinBoardPayload>> {
        let audit = Audit::of(ctx);
        audit.end(join_board(ctx, &audit, &input).await).await
    }

    /// Lets a member leave a board that it has joined, which makes room for another one. Refused if
    /// the member has a score there. Needs scope submit for a member's own token, and otherwise
    /// scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Submit)")]
    async fn leave_board(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The board and the member.")] input: LeaveBoardInput,
    ) -> Result<Option<LeaveBoardPayload>> {
        let audit = Audit::of(ctx);
        audit.end(leave_board(ctx, &audit, &input).await).await
    }

    /// Submits scores to a board. Each score is accepted or rejected on its own, so read each
    /// status. Needs scope submit.
    #[graphql(guard = "Needs::Scope(Scope::Submit)")]
    async fn submit_scores(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The board and the scores.")] input: SubmitScoresInput,
    ) -> Result<Option<SubmitScoresPayload>> {
        let _change = state(ctx).changes.enter();
        Ok(Some(submit(ctx, input).await?))
    }

    /// Removes a member from a board, in every window and period. The history stays, with this
    /// removal as one more event. Later scores count as the member's first. Needs scope
    /// moderate.
    #[graphql(guard = "Needs::Scope(Scope::Moderate)")]
    async fn remove_entry(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The board and the member.")] input: RemoveEntryInput,
    ) -> Result<Option<RemoveEntryPayload>> {
        let audit = Audit::of(ctx);
        audit.end(remove_entry(ctx, &audit, &input).await).await
    }

    /// Removes the members that a filter selects from a board, as `removeEntry` does, at most 1,000
    /// in a call. Call it again with `after: endCursor` as long as `hasMore`: a member that scores
    /// again behind the cursor stays. Needs scope moderate.
    #[graphql(guard = "Needs::Scope(Scope::Moderate)")]
    async fn remove_entries(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The board and the filter.")] input: RemoveEntriesInput,
    ) -> Result<Option<RemoveEntriesPayload>> {
        let audit = Audit::of(ctx);
        audit.end(remove_entries(ctx, &audit, input).await).await
    }

    /// Removes all members from a board, in every window and period, at most 1,000 in a call. Call
    /// it again with `after: endCursor` as long as `hasMore`. The history stays. Needs scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Admin)")]
    async fn reset_board(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The board.")] input: ResetBoardInput,
    ) -> Result<Option<ResetBoardPayload>> {
        let audit = Audit::of(ctx);
        audit.end(reset_board(ctx, &audit, input).await).await
    }

    /// Voids the scores that were earned in a period of a window, up to the moment of the first
    /// call, at most 1,000 in a call. Call it again with `after: endCursor` as long as `hasMore`. A
    /// score counts in all windows or in none, so it leaves the others too. Refused if scores of
    /// the period are archived. Needs scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Admin)")]
    async fn reset_period(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The board and the period.")] input: ResetPeriodInput,
    ) -> Result<Option<ResetPeriodPayload>> {
        let audit = Audit::of(ctx);
        audit.end(reset_period(ctx, &audit, input).await).await
    }

    /// Voids one event, a score or a removal: all standings become as if it had never been. The
    /// void is an event itself, and cannot be voided. The `eventId` of the voided event may be sent
    /// again. Refused if the remaining events would leave the range of the board. Needs scope
    /// moderate.
    #[graphql(guard = "Needs::Scope(Scope::Moderate)")]
    async fn void_event(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The event.")] input: VoidEventInput,
    ) -> Result<Option<VoidEventPayload>> {
        let audit = Audit::of(ctx);
        audit.end(void_event(ctx, &audit, &input.id).await).await
    }

    /// Creates members, or changes their names, attributes and pictures; 1 to 1,000 at once, all or
    /// none. Needs scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Admin)")]
    async fn upsert_members(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The members.")] input: UpsertMembersInput,
    ) -> Result<Option<UpsertMembersPayload>> {
        let audit = Audit::of(ctx);
        audit.end(upsert(ctx, &audit, input.members).await).await
    }

    /// Merges a member into another one, on all boards: the target's entries become those of the
    /// scores of both, in every window and period, and it gets the source's friends. The source
    /// keeps its history and takes no scores any more: they are refused with MEMBER_MERGED. A key
    /// is changed by a merge into a key that is not used yet. Both members wait meanwhile. Call it
    /// again to learn whether a merge that was not finished in 10 s is over. Needs scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Admin)")]
    async fn merge_members(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The two members.")] input: MergeMembersInput,
    ) -> Result<Option<MergeMembersPayload>> {
        let audit = Audit::of(ctx);
        audit.end(merge(ctx, &audit, &input).await).await
    }

    /// Erases a member for good: nothing names it, and all others are as before. Refused if others
    /// were merged into it. Call it again if it was not over in 10 s. Needs scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Admin)")]
    async fn erase_member(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The member.")] input: EraseMemberInput,
    ) -> Result<Option<EraseMemberPayload>> {
        let audit = Audit::of(ctx);
        audit.end(erase_member(ctx, &audit, &input).await).await
    }

    /// Releases scores from quarantine: each counts from now on, at the time when it was earned and
    /// with its event id, and counts once. A score that its board does not take, as it would leave
    /// the range or its member is banned, stays. A release that was cut short is continued by
    /// another one. Needs scope moderate.
    #[graphql(guard = "Needs::Scope(Scope::Moderate)")]
    async fn release_quarantined(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The scores.")] input: ReleaseQuarantinedInput,
    ) -> Result<Option<ReleaseQuarantinedPayload>> {
        let audit = Audit::of(ctx);
        audit.end(release_quarantined(ctx, &audit, &input).await).await
    }

    /// Voids scores in quarantine: they never count. A score that is sent again with the event id
    /// of a voided one is judged again. Needs scope moderate.
    #[graphql(guard = "Needs::Scope(Scope::Moderate)")]
    async fn void_quarantined(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The scores.")] input: VoidQuarantinedInput,
    ) -> Result<Option<VoidQuarantinedPayload>> {
        let audit = Audit::of(ctx);
        audit.end(void_quarantined(ctx, &audit, &input).await).await
    }

    /// Bans a member from a board or from all boards: its entries go from every window and period,
    /// and its new scores are quarantined. A ban that is there gets the new `shadow` and `reason`.
    /// Needs scope moderate.
    #[graphql(guard = "Needs::Scope(Scope::Moderate)")]
    async fn ban_member(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The member and the board.")] input: BanMemberInput,
    ) -> Result<Option<BanMemberPayload>> {
        let audit = Audit::of(ctx);
        audit.end(ban_member(ctx, &audit, &input).await).await
    }

    /// Lifts a ban: all that counted before counts again, and the scores that were quarantined
    /// because of it are released. Another ban of the member stays. Needs scope moderate.
    #[graphql(guard = "Needs::Scope(Scope::Moderate)")]
    async fn lift_ban(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The ban.")] input: LiftBanInput,
    ) -> Result<Option<LiftBanPayload>> {
        let audit = Audit::of(ctx);
        audit.end(lift_ban(ctx, &audit, &input).await).await
    }

    /// Reports a member of a board to the moderators, who alone see reports. A report that the
    /// reporter has open takes the new reason and text. A reporter has at most 50 open ones. Needs
    /// scope submit; a member's own token reports for that member.
    #[graphql(guard = "Needs::Scope(Scope::Submit)")]
    async fn report_member(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The member and the reason.")] input: ReportMemberInput,
    ) -> Result<Option<ReportMemberPayload>> {
        let _change = state(ctx).changes.enter();
        Ok(Some(report_member(ctx, input).await?))
    }

    /// Resolves a report of a member, or resolves it in another way. It changes nothing else: ban
    /// the member, or remove its entry, by mutations of their own. Needs scope moderate.
    #[graphql(guard = "Needs::Scope(Scope::Moderate)")]
    async fn resolve_report(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The report and the decision.")] input: ResolveReportInput,
    ) -> Result<Option<ResolveReportPayload>> {
        let audit = Audit::of(ctx);
        audit.end(resolve_report(ctx, &audit, &input).await).await
    }

    /// Makes two members friends of each other; does nothing if they already are. A member has at
    /// most 10,000 friends. If `LAUREL_FRIENDSHIPS` is mutual-consent, a member's own token asks
    /// the friend, and they are friends once both have asked. Needs scope friends; a member's own
    /// token may only change that member's friendships.
    #[graphql(guard = "Needs::Scope(Scope::Friends)")]
    async fn add_friend(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The two members.")] input: AddFriendInput,
    ) -> Result<Option<AddFriendPayload>> {
        let _change = state(ctx).changes.enter();
        Ok(Some(add_friend(ctx, &input).await?))
    }

    /// Ends a friendship, for both members, or takes back or declines a request for one; does
    /// nothing if there is none. Needs scope friends; a member's own token may only change that
    /// member's friendships.
    #[graphql(guard = "Needs::Scope(Scope::Friends)")]
    async fn remove_friend(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The two members.")] input: RemoveFriendInput,
    ) -> Result<Option<RemoveFriendPayload>> {
        let _change = state(ctx).changes.enter();
        Ok(Some(remove_friend(ctx, &input).await?))
    }

    /// Sets the clients that see a member by name: all, its friends, or itself alone. It is ranked
    /// all the same. Others, but for moderators, see its entries without the member, and find none
    /// by its key. Every server knows it within a second. Needs scope friends; a member's own token
    /// may only set that of its member.
    #[graphql(guard = "Needs::Scope(Scope::Friends)")]
    async fn set_visibility(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The member and its visibility.")] input: SetVisibilityInput,
    ) -> Result<Option<SetVisibilityPayload>> {
        let audit = Audit::of(ctx);
        audit.end(set_visibility(ctx, &audit, &input).await).await
    }
}
