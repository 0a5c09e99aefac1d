//! The mutations of administrators about the clients and the receivers of a deployment.

use async_graphql::{Context, Object, Result};
use entity::webhook::State;

use crate::access::scope::Scope;
use crate::graphql::audit::writer::Audit;
use crate::graphql::guard::Needs;
use crate::graphql::token::{
    self, CreateAccessTokenInput, CreateAccessTokenPayload, RevokeAccessTokenInput,
    RevokeAccessTokenPayload,
};
use crate::graphql::webhook::change;
use crate::graphql::webhook::input::{
    CreateWebhookInput, CreateWebhookPayload, DeleteWebhookInput, DeleteWebhookPayload,
    PauseWebhookInput, PauseWebhookPayload, ResumeWebhookInput, ResumeWebhookPayload,
    RotateWebhookSecretInput, RotateWebhookSecretPayload, SendTestEventInput, SendTestEventPayload,
    UpdateWebhookInput, UpdateWebhookPayload,
};

/// Changes of access tokens and webhooks.
#[derive(Default)]
pub struct OperationMutation;

#[Object]
impl OperationMutation {
    /// Makes an access token. Needs scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Admin)")]
    async fn create_access_token(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The token.")] input: CreateAccessTokenInput,
    ) -> Result<Option<CreateAccessTokenPayload>> {
        let audit = Audit::of(ctx);
        audit.end(token::create(ctx, &audit, input).await).await
    }

    /// Revokes an access token, which stops working within a second. To revoke it again changes
    /// nothing. Needs scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Admin)")]
    async fn revoke_access_token(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The token.")] input: RevokeAccessTokenInput,
    ) -> Result<Option<RevokeAccessTokenPayload>> {
        let audit = Audit::of(ctx);
        audit.end(token::revoke(ctx, &audit, &input).await).await
    }

    /// Makes a webhook: events from now on are sent to its receiver, each at least once. There may
    /// be 16. Needs scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Admin)")]
    async fn create_webhook(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The webhook.")] input: CreateWebhookInput,
    ) -> Result<Option<CreateWebhookPayload>> {
        let audit = Audit::of(ctx);
        let changed = change::create(ctx, &audit, input).await;
        audit.end(changed.map(|(webhook, secret)| CreateWebhookPayload { webhook, secret })).await
    }

    /// Changes a webhook, within a second. Needs scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Admin)")]
    async fn update_webhook(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The changes.")] input: UpdateWebhookInput,
    ) -> Result<Option<UpdateWebhookPayload>> {
        let audit = Audit::of(ctx);
        let changed = change::update(ctx, &audit, input).await;
        audit.end(changed.map(|webhook| UpdateWebhookPayload { webhook })).await
    }

    /// Gives a webhook a new secret. Events have a signature by each secret that is good still.
    /// Needs scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Admin)")]
    async fn rotate_webhook_secret(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The webhook.")] input: RotateWebhookSecretInput,
    ) -> Result<Option<RotateWebhookSecretPayload>> {
        let audit = Audit::of(ctx);
        let changed = change::rotate_secret(ctx, &audit, &input).await;
        audit
            .end(changed.map(|(webhook, secret)| RotateWebhookSecretPayload { webhook, secret }))
            .await
    }

    /// Pauses a webhook: its events wait. Needs scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Admin)")]
    async fn pause_webhook(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The webhook.")] input: PauseWebhookInput,
    ) -> Result<Option<PauseWebhookPayload>> {
        let audit = Audit::of(ctx);
        let changed = change::set_state(ctx, &audit, &input.id, State::Paused).await;
        audit.end(changed.map(|webhook| PauseWebhookPayload { webhook })).await
    }

    /// Lets a webhook that is paused, or that failed, go on with the events that wait. Needs scope
    /// admin.
    #[graphql(guard = "Needs::Scope(Scope::Admin)")]
    async fn resume_webhook(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The webhook.")] input: ResumeWebhookInput,
    ) -> Result<Option<ResumeWebhookPayload>> {
        let audit = Audit::of(ctx);
        let changed = change::set_state(ctx, &audit, &input.id, State::Active).await;
        audit.end(changed.map(|webhook| ResumeWebhookPayload { webhook })).await
    }

    /// Deletes a webhook, with the events that wait. Needs scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Admin)")]
    async fn delete_webhook(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The webhook.")] input: DeleteWebhookInput,
    ) -> Result<Option<DeleteWebhookPayload>> {
        let audit = Audit::of(ctx);
        let changed = change::delete(ctx, &audit, &input.id).await;
        audit
            .end(changed.map(|deleted_webhook_id| DeleteWebhookPayload { deleted_webhook_id }))
            .await
    }

    /// Sends an event of type "laurel.test.v1" to the receiver. Needs scope admin.
    #[graphql(guard = "Needs::Scope(Scope::Admin)")]
    async fn send_test_event(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The webhook.")] input: SendTestEventInput,
    ) -> Result<Option<SendTestEventPayload>> {
        let audit = Audit::of(ctx);
        let changed = change::send_test(ctx, &audit, &input.id).await;
        audit.end(changed.map(|webhook| SendTestEventPayload { webhook })).await
    }
}
