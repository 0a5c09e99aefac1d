//! Reads of standings for one request.

pub(crate) mod dense;
pub(crate) mod reader;
