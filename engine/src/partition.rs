//! A partition: one serial history, from the commit in Redis to the rows in SQL.

pub mod all_time_rows;
mod barrier;
pub mod change;
mod cursor;
pub mod follow;
pub mod home;
mod load;
pub mod persist;
mod recovery;
mod settle;
pub mod submit;

use std::fmt;
use std::ops::Deref;

use ranking::id::PartitionNo;

use crate::deployment::Deployment;

/// A partition of a deployment, with all that works on it. It derefs to the deployment.
#[derive(Debug, Clone, Copy)]
pub struct Partition<'a> {
    /// The deployment.
    pub deployment: &'a Deployment,
    /// The partition's number.
    pub no: PartitionNo,
}

impl Deployment {
    /// A partition of the deployment.
    #[must_use]
    pub fn partition(&self, no: PartitionNo) -> Partition<'_> {
        Partition { deployment: self, no }
    }
}

impl Deref for Partition<'_> {
    type Target = Deployment;

    fn deref(&self) -> &Deployment {
        self.deployment
    }
}

impl fmt::Display for Partition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.no.fmt(f)
    }
}
