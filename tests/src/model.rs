//! Expected states: boards computed naively from all their events, and the events that tests
//! submit.

pub mod decay;
pub mod demo;
pub mod game;
pub mod generator;
pub mod history;
pub mod oracle;
pub mod random_document;
pub mod schema;
