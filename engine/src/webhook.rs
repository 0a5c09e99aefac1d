//! Webhooks: the events that receivers are told of, and their delivery, whatever the way there is.
//!
//! | module | has |
//! |---|---|
//! | [`ended`], [`corrected`] | the ends of periods, and their corrections, for those who ask |
//! | [`overtaken`] | members who were overtaken in the circle of a webhook |
//! | [`message`] | an event as receivers get it |
//! | [`delivery`] | the history and the outbox, delivered in order and at least once |

pub mod corrected;
pub mod delivery;
pub mod ended;
pub mod message;
pub mod overtaken;
