//! Whole-system tests, in a folder for each feature; the library of this package has what they
//! share.

#![expect(
    clippy::unwrap_used,
    reason = "in a test a surprise is a failure, and its place is its best message"
)]

mod access;
#[cfg(target_os = "linux")]
mod attacks;
mod batch;
mod boards;
mod clients;
mod docs;
mod faults;
mod history;
mod http;
mod identity;
mod integrity;
mod live;
mod members;
mod mirror;
mod queues;
mod read;
mod stores;
mod submit;
mod tools;
mod webhooks;
mod windows;
