//! Webhooks, as far as they go over HTTP: the addresses that are allowed, the requests and their
//! signatures. The background work delivers them: `background/webhooks.rs`.

pub(crate) mod receiver;
pub(crate) mod signature;
