//! The one row that describes the deployment; its clocks, and the processes that have it open.

pub mod clock;
pub mod process;

use sea_orm::entity::prelude::*;

/// A row of `deployment`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "deployment")]
pub struct Model {
    /// Always 1.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i32,
    /// The number of partitions, fixed when the deployment is created.
    pub partitions: i32,
    /// Creation time, in Unix milliseconds.
    pub created_at_ms: i64,
}

no_relations!();

/// The row of the deployment; `None` before it is created.
pub async fn find(db: &impl ConnectionTrait) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(1).one(db).await
}
