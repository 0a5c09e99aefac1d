//! The pages: what they list is what the programs have, and their blocks run.

mod limits;
mod operations;
mod reference;
mod snippets;
