//! The engine of a program that was built without a client of Spark Connect.

use anyhow::{Result, bail};

/// A connection, which there never is.
pub enum Connection {}

impl Connection {
    /// Refuses.
    pub async fn open(_url: &str) -> Result<Self> {
        bail!(
            "this program has no client of Spark Connect: build one with `make analytics SPARK=1`, or let the engine run what `laurel fold sql` prints"
        )
    }

    /// As the other program's.
    pub fn version(&self) -> &str {
        match *self {}
    }

    /// As the other program's.
    pub async fn write(&self, _statement: &str, _out: &str) -> Result<()> {
        match *self {}
    }

    /// As the other program's.
    pub async fn end(self) {
        match self {}
    }
}
