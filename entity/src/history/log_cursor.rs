//! Cursors: how far SQL has each partition's log, and of which run of Redis.

use ranking::commit::{Head, ROOT_COMMIT};
use ranking::id::PartitionNo;
use sea_orm::entity::prelude::*;

/// A row of `log_cursor`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "log_cursor")]
pub struct Model {
    /// The partition.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// The Redis run id whose commits SQL accepts.
    pub run_id: String,
    /// The seq of the last commit; 0 before the first.
    pub seq: i64,
    /// The id of the last commit.
    pub commit_id: String,
    /// Goes up with each recovery, so that a persister that began before it cannot write.
    pub epoch: i64,
    /// The run ids of Redis before the present one, newest first, with spaces between.
    pub retired_runs: String,
}

no_relations!();

/// The number of former runs that a cursor remembers.
const RETIRED_RUNS_MAX: usize = 16;

impl Model {
    /// The cursor of a partition of which SQL has accepted no run yet.
    pub fn root(partition: PartitionNo) -> Self {
        Self {
            partition: partition.into(),
            run_id: String::new(),
            seq: 0,
            commit_id: ROOT_COMMIT.to_owned(),
            epoch: 0,
            retired_runs: String::new(),
        }
    }

    /// True if a head is of the run and of the epoch whose commits SQL accepts.
    pub fn accepts(&self, head: &Head) -> bool {
        head.run_id == self.run_id && head.epoch == self.epoch.unsigned_abs()
    }

    /// True if SQL accepted commits of a run, and then those of another one.
    pub fn is_retired(&self, run_id: &str) -> bool {
        self.retired_runs.split(' ').any(|retired| retired == run_id)
    }

    /// The former runs once the cursor accepts another one.
    pub fn retired_before(&self, run_id: &str) -> String {
        let former = std::iter::once(self.run_id.as_str()).chain(self.retired_runs.split(' '));
        let former = former.filter(|former| !former.is_empty() && *former != run_id);
        former.take(RETIRED_RUNS_MAX).collect::<Vec<_>>().join(" ")
    }
}

/// The cursor of a partition; `None` if SQL has never accepted a run of Redis.
pub async fn of(db: &impl ConnectionTrait, partition: PartitionNo) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(i32::from(partition)).one(db).await
}

/// The cursors of all partitions.
pub async fn all(db: &impl ConnectionTrait) -> Result<Vec<Model>, DbErr> {
    Entity::find().all(db).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_remembers_the_runs_before_its_own() {
        let mut cursor = Model { run_id: "r0".to_owned(), ..Model::root(PartitionNo(0)) };
        for run in 1..=20 {
            let next = format!("r{run}");
            cursor.retired_runs = cursor.retired_before(&next);
            cursor.run_id = next;
        }
        assert!(cursor.is_retired("r19") && cursor.is_retired("r4"));
        assert!(!cursor.is_retired("r3") && !cursor.is_retired("r20"));
        // A run that is accepted again is no former one.
        assert!(!cursor.retired_before("r10").split(' ').any(|run| run == "r10"));
    }
}
