//! The words for that which is in the way of a part, and for that which would be accepted.

use super::{job, terms_of};
use crate::job::part::Part;
use entity::job::part::Terms;

/// Says that a job with other terms is in the way.
pub(super) fn other(job: &job::Model) -> String {
    let (Some(parts), Some(Terms { options, .. })) = (job.parts, terms_of(job)) else {
        return format!("another job is running: {job}: expected this command when it has ended");
    };
    let options = if options.is_empty() { "none" } else { &options };
    format!(
        "another job is running: {job}: expected --part K/{parts} and of the options that change its work {options}, or this command when its processes have ended"
    )
}

/// Says that the layout changed in the course of a job.
pub(super) fn moved(job: &job::Model) -> String {
    format!(
        "a board moved to another number of shards since {job} began, and what its parts did does not fit together: expected all parts again"
    )
}

/// Says that another process runs a part.
pub(super) fn run_by_another(job: &job::Model, part: Part) -> String {
    format!(
        "another process runs part {part} of {job}: expected a part that no process runs, or this one again when that process has ended (at most a minute after it is gone)"
    )
}
