//! The formats of files that events come in and standings go out: by a file's extension.

use std::path::Path;

use anyhow::{Result, bail};

use crate::shown;

/// How a file holds rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// Comma-separated, with a header.
    Csv,
    /// A JSON object a line.
    Ndjson,
    /// Apache Parquet.
    Parquet,
}

impl FileFormat {
    /// The format of a file to be read: what is neither `.ndjson` nor `.parquet` is CSV.
    pub fn of_input(path: &Path) -> Self {
        Self::named(path).unwrap_or(Self::Csv)
    }

    /// The format of a file to be written.
    ///
    /// # Errors
    /// Where its extension is none of the three.
    pub fn of_output(path: &Path) -> Result<Self> {
        let Some(format) = Self::named(path) else {
            bail!(
                "{} has no format by its name; .csv, .ndjson and .parquet are accepted",
                shown(path)
            )
        };
        Ok(format)
    }

    /// What its rows are counted in, for messages.
    pub fn row_word(self) -> &'static str {
        match self {
            Self::Csv | Self::Ndjson => "line",
            Self::Parquet => "row",
        }
    }

    fn named(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "csv" => Some(Self::Csv),
            "ndjson" => Some(Self::Ndjson),
            "parquet" => Some(Self::Parquet),
            _ => None,
        }
    }
}
