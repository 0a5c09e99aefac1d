//! Webhooks, as far as they go over HTTP: the addresses that are allowed, the messages and their
//! signatures. The background work delivers them: `background/webhooks.rs`.

pub(crate) mod message;
pub(crate) mod receiver;
pub(crate) mod signature;
