//! The formats of event and standings files, by file extension.

use std::path::Path;

use anyhow::{Result, bail};

use crate::display_path;

/// The format of a file's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// Comma-separated, with a header.
    Csv,
    /// A JSON object per line.
    Ndjson,
    /// Apache Parquet.
    Parquet,
}

impl FileFormat {
    /// The format of an input file: CSV unless the extension is `.ndjson` or `.parquet`.
    pub fn of_input(path: &Path) -> Self {
        Self::named(path).unwrap_or(Self::Csv)
    }

    /// The format of an output file.
    ///
    /// # Errors
    /// If the extension is none of the three.
    pub fn of_output(path: &Path) -> Result<Self> {
        let Some(format) = Self::named(path) else {
            bail!("invalid file name {:?}: expected .csv, .ndjson or .parquet", display_path(path))
        };
        Ok(format)
    }

    /// The word for a row in messages.
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
