//! Several partitions at once, each by a task of its own: what is computed for one keeps no other one waiting.

use anyhow::Result;
use futures::{Stream, StreamExt, stream};
use tokio_util::task::AbortOnDropHandle;

/// Does something for each of some, for so many at once, and gives what came of it in their order. They end when nobody waits for them any more.
///
/// # Errors
/// In the stream, where it panicked.
pub fn side_by_side<T, F>(
    each: impl IntoIterator<Item = T>,
    at_once: usize,
    mut work: impl FnMut(T) -> F,
) -> impl Stream<Item = Result<F::Output>>
where
    F: Future<Output: Send> + Send + 'static,
{
    stream::iter(each)
        .map(move |one| AbortOnDropHandle::new(tokio::spawn(work(one))))
        .buffered(at_once)
        .map(|worked| Ok(worked?))
}
