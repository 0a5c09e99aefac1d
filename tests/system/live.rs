//! Subscriptions: answers that are pushed, and the sockets that they go to.

mod clients;
mod documents;
mod limits;
mod protocol;
mod pushes;
mod sharing;
mod tokens;
