//! Several partitions at once, each by a task of its own: what is computed for one keeps no other one waiting.

use anyhow::{Error, Result};
use futures::{Stream, StreamExt, stream};
use tokio_util::task::AbortOnDropHandle;

/// How many partitions are under way at once: one is folded while another is loaded or read from Redis, and rows of SQL are read for a third.
pub const PARTITIONS_AT_ONCE: usize = 3;

/// Does something for each of some, for so many at once, and gives what came of it in their order. They end when nobody waits for them any more.
///
/// # Errors
/// In the stream: those of the work, and where it panicked.
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
