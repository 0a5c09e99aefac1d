//! A deployment made of a backup, in an empty database and an empty data directory.
//!
//! Every file is compared with its hash first. Then the files of the archive get to their places,
//! as the rows name them. All rows come in one transaction, so a process that ends early leaves a
//! database without tables; in MariaDB and MySQL, tables without rows. An apply that fails takes
//! its files away again.
//!
//! The deployment keeps its id. It has no Redis, and its cursors begin an epoch of no run: a Redis
//! of before is not taken for level, but read as a past that may lead on.

use std::fs;
use std::path::{Path, PathBuf};

use entity::access_token;
use entity::deployment as deployment_row;
use entity::error::{Result, is_missing_table};
use entity::history::log_cursor;
use entity::sql::begin;
use ranking::Error;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseConnection, DatabaseTransaction,
    EntityTrait, QueryFilter,
};

use super::placed::Placed;
use super::{ARCHIVE, Manifest, TABLES, table};
use crate::deployment::checksum;
use crate::deployment::files::failed;
use crate::failpoint;
use crate::settings::Settings;

/// The files of an empty data directory: the database without tables, and a key put there before.
const ALLOWED: [&str; 5] = [
    "laurel.sqlite",
    "laurel.sqlite-wal",
    "laurel.sqlite-shm",
    "laurel.sqlite-journal",
    "checkpoint.key",
];

/// Fills the stores that the settings name from a backup. `progress` gets a line for each step.
///
/// # Errors
/// `Invalid` if a store is not empty, or if the backup is not whole or of a newer program; nothing
/// is touched then. If SQL or the system fails; the database then has no rows, and the archive no
/// files, unless the error says that this is not known.
pub async fn apply(
    settings: &Settings,
    directory: &Path,
    progress: &mut dyn FnMut(String),
) -> Result<Manifest> {
    let manifest = Manifest::read(directory)?;
    let steps = check_schema(&manifest)?;
    check_files(&manifest, directory)?;
    progress(format!("verified {} files", manifest.tables.len() + manifest.archive.len()));
    check_empty(&settings.sql.data_dir, &ALLOWED)?;
    let places = settings.archive_places();
    for place in &places {
        check_empty(place, &[])?;
    }
    let db = settings.sql.create_empty().await?;
    let filled = fill(&db, &manifest, steps, directory, &places, progress).await;
    let _ = db.close().await;
    filled.map(|()| manifest)
}

/// The number of steps of the schema that the backup has, which are the first ones of this program.
fn check_schema(manifest: &Manifest) -> Result<u32> {
    let (known, tables) = (migration::steps(), migration::tables());
    if let Some(step) = manifest.schema.iter().find(|step| !known.contains(step)) {
        return Err(Error::Invalid(format!(
            "the backup has the step {step} of the schema, which this program does not know: expected a program of version {} or newer, and this is {}",
            manifest.program,
            env!("CARGO_PKG_VERSION")
        ))
        .into());
    }
    let strange = manifest.tables.iter().find(|table| !tables.contains(&table.name));
    if !known.starts_with(&manifest.schema) || strange.is_some() {
        return Err(Error::Invalid("the backup is of another schema".into()).into());
    }
    Ok(u32::try_from(manifest.schema.len()).unwrap_or(u32::MAX))
}

/// Compares every file with its hash.
fn check_files(manifest: &Manifest, directory: &Path) -> Result<()> {
    let tables = manifest
        .tables
        .iter()
        .map(|table| (table_path(directory, &table.name), table.bytes, &table.sha256));
    let archive = manifest
        .archive
        .iter()
        .map(|file| (directory.join(ARCHIVE).join(&file.path), file.bytes, &file.sha256));
    for (path, bytes, sha256) in tables.chain(archive) {
        let sum = checksum::sum_of(&path).map_err(|error| failed(&path, &error))?;
        if (sum.bytes, &sum.sha256) != (bytes, sha256) {
            return Err(Error::Invalid(format!(
                "{} was altered: it has {} bytes with SHA-256 {}, expected {bytes} bytes with {sha256}; take another backup",
                path.display(),
                sum.bytes,
                sum.sha256
            ))
            .into());
        }
    }
    Ok(())
}

/// Checks that a directory has no other entries than the allowed ones, or is not there.
fn check_empty(directory: &Path, allowed: &[&str]) -> Result<()> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(directory, &error).into()),
    };
    for entry in entries {
        let name = entry.map_err(|error| failed(directory, &error))?.file_name();
        if !allowed.iter().any(|allowed| name == *allowed) {
            return Err(not_empty(&directory.join(name).display().to_string()).into());
        }
    }
    Ok(())
}

fn not_empty(found: &str) -> Error {
    Error::Invalid(format!(
        "there is {found}: expected an empty database, data directory and archive, as a backup is never mixed with other data; name others by LAUREL_DATABASE_URL, LAUREL_DATA_DIR, LAUREL_ARCHIVE_DIR and LAUREL_ARCHIVE_COPY_DIR"
    ))
}

fn table_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(TABLES).join(format!("{name}.ndjson.gz"))
}

async fn fill(
    db: &DatabaseConnection,
    manifest: &Manifest,
    steps: u32,
    directory: &Path,
    places: &[PathBuf],
    progress: &mut dyn FnMut(String),
) -> Result<()> {
    let is_transactional = migration::is_transactional(db.get_database_backend());
    if let Some(table) = migration::strange_tables(db).await?.first() {
        return Err(not_empty(&format!("the table {table} in the database")).into());
    }
    match deployment_row::find(db).await {
        Err(error) if is_missing_table(&error) => {}
        // Commands make tokens before there is a deployment.
        Ok(None) if !is_transactional => match access_token::list(db).await {
            Ok(tokens) if !tokens.is_empty() => {
                return Err(not_empty("an access token in the database").into());
            }
            _ => {}
        },
        Ok(_) => return Err(not_empty("a deployment in the database").into()),
        Err(error) => return Err(error.into()),
    }
    if !is_transactional {
        make_schema(db, manifest, steps).await?;
    }
    // The disk has the files before SQL names them, and no transaction waits for their copies.
    let mut placed = Placed::default();
    for place in places {
        placed.copy(&manifest.archive, &directory.join(ARCHIVE), place)?;
    }
    placed.sync()?;
    failpoint::hit("backup-copied");
    progress(format!("archive: {} files", manifest.archive.len()));
    let transaction = begin(db).await?;
    if let Err(error) = insert(&transaction, manifest, steps, directory, progress).await {
        let _ = transaction.rollback().await;
        return Err(error);
    }
    failpoint::hit("backup-inserted");
    if let Err(error) = transaction.commit().await {
        // The rows may be there all the same, and only the answer is lost.
        match deployment_row::find(db).await {
            Ok(Some(_)) => {}
            Ok(None) => return Err(error.into()),
            Err(missing) if is_missing_table(&missing) => return Err(error.into()),
            _ => {
                placed.keep();
                return Err(Error::Unavailable(format!(
                    "the database did not say whether it has the rows ({error}): look whether its table deployment has a row; if it has none, or there is no such table, delete the archive's files, and apply the backup again"
                ))
                .into());
            }
        }
    }
    placed.keep();
    Ok(())
}

/// Makes the schema of the backup where no transaction can have it, or the rest of it if an earlier
/// attempt ended early.
async fn make_schema(db: &DatabaseConnection, manifest: &Manifest, steps: u32) -> Result<()> {
    let known = migration::status(db).await?;
    let applied = known.iter().filter(|(_, state)| state == "Applied").count();
    let applied = u32::try_from(applied).unwrap_or(u32::MAX);
    let left = steps.checked_sub(applied).ok_or_else(|| not_empty("a newer schema"))?;
    migration::up_apart(db, Some(left)).await?;
    for table in &manifest.tables {
        table::set_last_number(db, table).await?;
    }
    Ok(())
}

/// Makes the schema of the backup, unless it is there, and inserts its rows.
async fn insert(
    transaction: &DatabaseTransaction,
    manifest: &Manifest,
    steps: u32,
    directory: &Path,
    progress: &mut dyn FnMut(String),
) -> Result<()> {
    if migration::is_transactional(transaction.get_database_backend()) {
        migration::up_in(transaction, Some(steps)).await?;
    }
    // A row comes after those that it refers to.
    for name in migration::tables() {
        let Some(wanted) = manifest.tables.iter().find(|table| table.name == name) else {
            continue;
        };
        table::insert(transaction, wanted, &table_path(directory, &name)).await?;
        progress(format!("{name}: {} rows", wanted.rows));
    }
    leave_redis(transaction).await
}

/// Forgets the Redis of before: the next start names another one, and every cursor has left the
/// run that it accepted.
async fn leave_redis(transaction: &DatabaseTransaction) -> Result<()> {
    use deployment_row::Column::{Redis, RedisSeenAtMs};
    deployment_row::Entity::update_many()
        .col_expr(Redis, Expr::value(None::<String>))
        .col_expr(RedisSeenAtMs, Expr::value(None::<i64>))
        .exec(transaction)
        .await?;
    let run_id = entity::random_id();
    for cursor in log_cursor::all(transaction).await? {
        let left = log_cursor::ActiveModel {
            run_id: Set(run_id.clone()),
            epoch: Set(cursor.epoch + 1),
            retired_runs: Set(cursor.retired_before(&run_id)),
            ..Default::default()
        };
        log_cursor::Entity::update_many()
            .set(left)
            .filter(log_cursor::Column::Partition.eq(cursor.partition))
            .exec(transaction)
            .await?;
    }
    Ok(())
}
