//! The names of access tokens, which tell their operator what each is for.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

column_step!("access_token", "name", "TEXT");
