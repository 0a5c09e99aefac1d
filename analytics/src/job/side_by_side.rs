//! Works on several partitions at once, each in its own task, so that computation for one does not
//! hold up the others.

use anyhow::{Error, Result};
use futures::{Stream, StreamExt, stream};
use tokio_util::task::AbortOnDropHandle;

/// Partitions under way at once: one is folded while another is loaded or read from Redis, and
/// SQL's rows are read for a third.
pub const PARTITIONS_AT_ONCE: usize = 3;

/// Does `work` for each item, `at_once` at a time, and yields the results in order. Dropping the
/// stream aborts the tasks.
///
/// # Errors
/// In the stream: those of the work, and its panics.
pub fn side_by_side<T, O, E, F>(
    each: impl IntoIterator<Item = T>,
    at_once: usize,
    mut work: impl FnMut(T) -> F,
) -> impl Stream<Item = Result<O>>
where
    F: Future<Output = Result<O, E>> + Send + 'static,
    O: Send + 'static,
    E: Into<Error> + Send + 'static,
{
    stream::iter(each)
        .map(move |one| AbortOnDropHandle::new(tokio::spawn(work(one))))
        .buffered(at_once)
        .map(|worked| worked?.map_err(Into::into))
}
