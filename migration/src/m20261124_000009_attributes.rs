//! The attributes of members besides the region, by which boards may have segments: a JSON object
//! of texts.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

column_step!("member", "attributes", "TEXT");
