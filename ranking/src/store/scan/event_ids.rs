//! The event ids of a board that a partition remembers.

use std::collections::HashMap;

use crate::error::Result;
use crate::id::{BoardNo, PartitionNo};
use crate::store::Store;
use crate::submission::event_ids::seen_prefix;

/// The number of fields in one `HSCAN`.
const FIELDS_MAX: usize = 1000;

/// The answer to one `HSCAN`: the next cursor, and fields with their values.
type Found = (String, Vec<(String, String)>);

impl Store {
    /// The event ids of a board in one bucket of a partition: fields and values of a seen
    /// hash. `HSCAN`: several round trips, O(event ids of all boards).
    pub async fn seen_of(
        &self,
        partition: PartitionNo,
        bucket: i64,
        board: BoardNo,
    ) -> Result<HashMap<String, String>> {
        let key = self.keys().seen(partition, bucket);
        let (mut cursor, mut seen) = ("0".to_owned(), HashMap::new());
        loop {
            let mut pipe = redis::pipe();
            pipe.cmd("HSCAN")
                .arg(&key)
                .arg(&cursor)
                .arg("MATCH")
                .arg(format!("{}*", seen_prefix(board)))
                .arg("COUNT")
                .arg(FIELDS_MAX);
            let (((next, found),), _): ((Found,), _) = self.read(&pipe).await?;
            seen.extend(found);
            if next == "0" {
                return Ok(seen);
            }
            cursor = next;
        }
    }
}
