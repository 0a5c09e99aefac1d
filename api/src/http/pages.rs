//! The pages that the server has in itself.

mod files;
pub(crate) mod front;
pub(crate) mod graphiql;
pub(crate) mod office;
mod preview;
