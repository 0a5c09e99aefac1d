//! The history of the SQL schema. A step that has landed is frozen; a change is a new step.

mod m20261121_000001_first_light;
mod m20261121_000002_whole_surface;
mod m20261121_000003_seals;
mod m20261121_000004_standing_member;
mod m20261121_000005_archive;
mod m20261121_000006_job_lease;
mod m20261121_000007_proof;
mod m20261121_000008_reshard;
mod m20261121_000009_standing_partition;
mod m20261121_000010_archived_entry_partition;
mod m20261121_000011_rows_by_partition;
mod m20261121_000012_archived_before;

pub use sea_orm_migration::MigratorTrait;
use sea_orm_migration::prelude::*;

/// Every step, oldest first.
#[derive(Debug)]
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m20261121_000001_first_light::Migration),
            Box::new(m20261121_000002_whole_surface::Migration),
            Box::new(m20261121_000003_seals::Migration),
            Box::new(m20261121_000004_standing_member::Migration),
            Box::new(m20261121_000005_archive::Migration),
            Box::new(m20261121_000006_job_lease::Migration),
            Box::new(m20261121_000007_proof::Migration),
            Box::new(m20261121_000008_reshard::Migration),
            Box::new(m20261121_000009_standing_partition::Migration),
            Box::new(m20261121_000010_archived_entry_partition::Migration),
            Box::new(m20261121_000011_rows_by_partition::Migration),
            Box::new(m20261121_000012_archived_before::Migration),
        ]
    }
}
