//! Runs of the integrity diff that compared less than everything, so that none of them is taken for
//! a clean one.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

column_step!("integrity_run", "is_partial", "BOOLEAN NOT NULL DEFAULT FALSE");
