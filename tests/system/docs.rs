//! The pages: what they list is what the programs have, and their blocks run.

mod limits;
mod reference;
mod snippets;
