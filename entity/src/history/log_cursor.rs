//! Cursors: how far SQL has each partition's log, and of which run of Redis.

use sea_orm::entity::prelude::*;

/// A row of `log_cursor`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "log_cursor")]
pub struct Model {
    /// The partition.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// The run id of Redis whose commits are accepted.
    pub run_id: String,
    /// The last commit's seq; 0 before the first.
    pub seq: i64,
    /// The last commit's id.
    pub commit_id: String,
    /// Goes up with each recovery: a persister from before it cannot write.
    pub epoch: i64,
}

/// None that are followed.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
