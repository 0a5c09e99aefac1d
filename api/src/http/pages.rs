//! The pages that the server has in itself.

pub(crate) mod graphiql;
