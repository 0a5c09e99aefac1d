//! Attacks: what a stranger may send costs the server little, and no more than it is charged for.
//!
//! Each test starts a server of its own, as it reads the time and the memory of the process in
//! `/proc`.

mod connections;
mod cost;
mod documents;
mod echoes;
mod histories;
mod honest;
mod introspection;
mod late_events;
mod limits;
mod memory;
mod random_documents;
mod rates;
mod schemathesis;
mod stop;
mod subscriptions;
mod turns;
