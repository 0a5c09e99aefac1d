//! The inputs and the results of the mutations of webhooks.

use async_graphql::{ID, InputObject, MaybeUndefined, SimpleObject};

use super::circle::OvertakenInput;
use super::{Webhook, WebhookEvent};

/// A webhook to be made.
#[derive(InputObject)]
pub struct CreateWebhookInput {
    /// A name that tells what it is for: 1 to 200 characters.
    pub(super) name: String,
    /// The address of the receiver: https, with a public host unless a setting allows another one;
    /// at most 2,048 bytes. Or "feed:NAME", where `laurel feed --name NAME` takes the events to a
    /// broker: a name of 1 to 64 small letters, digits, hyphens and underscores.
    pub(super) url: String,
    /// The kinds of events that it asks for, at least one.
    pub(super) events: Vec<WebhookEvent>,
    /// The slug of the only board whose events it gets; all boards by default.
    pub(super) board: Option<String>,
    /// The circle within which `OVERTAKEN` is told: with that event, which also needs `board`, and
    /// without it never.
    pub(super) overtaken: Option<OvertakenInput>,
}

/// Changes of a webhook. A field that is not given stays.
#[derive(InputObject)]
pub struct UpdateWebhookInput {
    /// The global id of the webhook.
    pub(super) id: ID,
    /// The name.
    pub(super) name: Option<String>,
    /// The address of the receiver, or "feed:NAME".
    pub(super) url: Option<String>,
    /// The kinds of events that it asks for. A kind that is new begins now.
    pub(super) events: Option<Vec<WebhookEvent>>,
    /// The slug of the only board whose events it gets; null for all boards.
    pub(super) board: MaybeUndefined<String>,
    /// The circle within which `OVERTAKEN` is told. Another one begins now; it goes with the event.
    pub(super) overtaken: Option<OvertakenInput>,
}

/// The webhook whose secret is to change.
#[derive(InputObject)]
pub struct RotateWebhookSecretInput {
    /// The global id of the webhook.
    pub(super) id: ID,
    /// The time for which the former secret signs too, in seconds: 0 to 604,800, which are 7 days.
    /// With 0 no former secret signs any more; otherwise all sign until the longest overlap ends.
    #[graphql(default = 86_400)]
    pub(super) overlap_seconds: i32,
}

/// The webhook to pause.
#[derive(InputObject)]
pub struct PauseWebhookInput {
    /// The global id of the webhook.
    pub(crate) id: ID,
}

/// The webhook that is to go on.
#[derive(InputObject)]
pub struct ResumeWebhookInput {
    /// The global id of the webhook.
    pub(crate) id: ID,
}

/// The webhook to delete.
#[derive(InputObject)]
pub struct DeleteWebhookInput {
    /// The global id of the webhook.
    pub(crate) id: ID,
}

/// The webhook whose receiver is to be sent a test.
#[derive(InputObject)]
pub struct SendTestEventInput {
    /// The global id of the webhook.
    pub(crate) id: ID,
}

/// The result of `createWebhook`.
#[derive(SimpleObject)]
pub struct CreateWebhookPayload {
    /// The new webhook.
    pub(crate) webhook: Webhook,
    /// The secret that signs events, by the convention of Standard Webhooks: "whsec_…". It cannot
    /// be shown again.
    pub(crate) secret: String,
}

/// The result of `updateWebhook`.
#[derive(SimpleObject)]
pub struct UpdateWebhookPayload {
    /// The changed webhook.
    pub(crate) webhook: Webhook,
}

/// The result of `rotateWebhookSecret`.
#[derive(SimpleObject)]
pub struct RotateWebhookSecretPayload {
    /// The webhook.
    pub(crate) webhook: Webhook,
    /// The secret that signs events, by the convention of Standard Webhooks: "whsec_…". It cannot
    /// be shown again.
    pub(crate) secret: String,
}

/// The result of `pauseWebhook`.
#[derive(SimpleObject)]
pub struct PauseWebhookPayload {
    /// The paused webhook.
    pub(crate) webhook: Webhook,
}

/// The result of `resumeWebhook`.
#[derive(SimpleObject)]
pub struct ResumeWebhookPayload {
    /// The webhook, which is active.
    pub(crate) webhook: Webhook,
}

/// The result of `deleteWebhook`.
#[derive(SimpleObject)]
pub struct DeleteWebhookPayload {
    /// The global id that the webhook had.
    pub(crate) deleted_webhook_id: ID,
}

/// The result of `sendTestEvent`.
#[derive(SimpleObject)]
pub struct SendTestEventPayload {
    /// The webhook whose receiver gets the test.
    pub(crate) webhook: Webhook,
}
