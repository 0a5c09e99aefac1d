//! A backup: the rows of SQL at one moment and the files of the archive, in a directory of files
//! that are the same for every database.
//!
//! ```text
//! manifest.json            what is in the backup, and the SHA-256 of each file
//! manifest.sha256          the SHA-256 of the manifest, as sha256sum writes it
//! tables/<table>.ndjson.gz a row a line, as a JSON array in the order of the manifest's columns
//! archive/<path>           the files of the archive
//! ```
//!
//! Rows of processes are left out, and the counter of changes of boards: triggers
//! count the rows as they come. Redis is none of it: all that SQL does not have yet is in its
//! own files, and a deployment fills an empty Redis from SQL.

pub mod apply;
pub mod create;
mod file;
mod placed;
mod table;

use std::fs;
use std::io::Read;
use std::path::{Component, Path};

use entity::error::Result;
use ranking::Error;
use serde::{Deserialize, Serialize};

use self::table::Kind;
use crate::deployment::checksum;
use crate::deployment::files::failed;

/// The version of the format.
const FORMAT: u32 = 1;

/// The names in a backup.
const MANIFEST: &str = "manifest.json";
const MANIFEST_HASH: &str = "manifest.sha256";
const TABLES: &str = "tables";
const ARCHIVE: &str = "archive";

/// The most bytes of a manifest: an archive of a million files needs some 200 MB.
const MANIFEST_BYTES_MAX: u64 = 256 << 20;

/// The tables that are left out: their rows are of processes that run, and of a lake that another
/// deployment goes on to write.
const LEFT_OUT: [&str; 4] = ["process", "mirror_place", "mirror_mark", "mirror_file"];

/// A list of everything in a backup.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the format.
    pub format: u32,
    /// The version of the program that made it.
    pub program: String,
    /// The steps of the schema that were applied, oldest first.
    pub schema: Vec<String>,
    /// The id of the deployment.
    pub deployment: String,
    /// The moment of the backup by SQL's clock, in Unix milliseconds.
    pub created_at_ms: i64,
    /// SQL's last commit of each partition.
    pub heads: Vec<PartitionHead>,
    /// The tables.
    pub tables: Vec<TableFile>,
    /// The files of the archive.
    pub archive: Vec<ArchiveFile>,
}

/// The last commit of a partition that SQL has.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PartitionHead {
    /// The partition.
    pub partition: i32,
    /// The seq of the commit; 0 before the first.
    pub seq: i64,
    /// The id of the commit.
    pub commit: String,
}

/// The file of a table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TableFile {
    /// The name of the table.
    pub name: String,
    /// The columns, in the order of each row's values.
    pub columns: Vec<TableColumn>,
    /// The number of rows.
    pub rows: u64,
    /// The last number that the database gave to a row by itself; 0 for none.
    pub last_number: i64,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableColumn {
    /// The name.
    pub name: String,
    /// The kind of its values.
    pub kind: Kind,
}

/// A file of the archive.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ArchiveFile {
    /// The path in the archive's directory.
    pub path: String,
    /// The size in bytes.
    pub bytes: u64,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
}

impl Manifest {
    /// The rows of all tables.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|table| table.rows).sum()
    }

    /// Reads the manifest of a backup, and compares it with its hash.
    fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(MANIFEST);
        let refused = |why: &str| {
            Error::Invalid(format!(
                "{} is not a whole backup: {why}; expected a directory that `laurel backup create` made",
                directory.display()
            ))
        };
        let text = read_file(&path)?.ok_or_else(|| refused("it has no manifest.json"))?;
        let hash = read_file(&directory.join(MANIFEST_HASH))?;
        let hash = hash.ok_or_else(|| refused("it has no manifest.sha256"))?;
        if hash.split_whitespace().next() != Some(checksum::sha256_of(text.as_bytes()).as_str()) {
            return Err(refused("manifest.json was altered").into());
        }
        let manifest: Self =
            serde_json::from_str(&text).map_err(|error| refused(&error.to_string()))?;
        if manifest.format != FORMAT {
            return Err(Error::Invalid(format!(
                "the backup {} has format {}: expected {FORMAT}; apply it with the program that made it, version {}",
                directory.display(),
                manifest.format,
                manifest.program
            ))
            .into());
        }
        manifest.check_names().map_err(|name| refused(&format!("it names {name:?}")))?;
        Ok(manifest)
    }

    /// Checks that no name leads out of the backup or of a statement.
    ///
    /// # Errors
    /// The first name that does.
    fn check_names(&self) -> std::result::Result<(), String> {
        let is_word = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit())
        };
        for table in &self.tables {
            let columns = table.columns.iter().map(|column| &column.name);
            if let Some(name) = columns.chain([&table.name]).find(|name| !is_word(name)) {
                return Err(name.clone());
            }
        }
        let leads_out = |file: &&ArchiveFile| {
            let mut parts = Path::new(&file.path).components();
            file.path.is_empty() || !parts.all(|part| matches!(part, Component::Normal(_)))
        };
        match self.archive.iter().find(leads_out) {
            Some(file) => Err(file.path.clone()),
            None => Ok(()),
        }
    }
}

/// The text of a small file; `None` if it is not there.
fn read_file(path: &Path) -> Result<Option<String>> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path, &error).into()),
    };
    let mut text = String::new();
    file.take(MANIFEST_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| failed(path, &error))?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(table: &str, path: &str) -> Manifest {
        let (sha256, bytes) = (String::new(), 0);
        Manifest {
            format: FORMAT,
            program: "0".to_owned(),
            schema: vec![],
            deployment: "d".to_owned(),
            created_at_ms: 0,
            heads: vec![],
            tables: vec![TableFile {
                name: table.to_owned(),
                columns: vec![TableColumn { name: "no".to_owned(), kind: Kind::Number }],
                rows: 0,
                last_number: 0,
                bytes,
                sha256: sha256.clone(),
            }],
            archive: vec![ArchiveFile { path: path.to_owned(), bytes, sha256 }],
        }
    }

    #[test]
    fn names_that_lead_out_are_refused() {
        assert_eq!(manifest("score_event", "board-1/2026-01/p.parquet").check_names(), Ok(()));
        assert!(manifest("a\"; DROP", "p").check_names().is_err());
        for path in ["../p", "/p", "a/../../p", ""] {
            assert_eq!(manifest("a", path).check_names(), Err(path.to_owned()));
        }
    }
}
