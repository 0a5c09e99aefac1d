//! A file of the lake: named, put, read back and compared.

use std::io::Cursor;

use anyhow::{Context, Result, ensure};
use engine::deployment::Deployment;
use engine::deployment::checksum::sha256_of;
use engine::failpoint;
use engine::history::mirror;
use entity::mirror::mirror_file::{self, State};
use entity::random_id;
use polars::prelude::{DataFrame, ParquetCompression, ParquetReader, ParquetWriter, SerReader};
use ranking::id::{BoardNo, PartitionNo};
use tokio::task::block_in_place;

use super::place::Place;

/// The digits of the checksum in a file's name: a name means one content.
const NAME_DIGITS: usize = 16;

/// The events of a file, which covers these seqs.
pub(super) struct Content {
    pub(super) board: BoardNo,
    pub(super) partition: PartitionNo,
    pub(super) seqs: (i64, i64),
    pub(super) frame: DataFrame,
}

/// Names a file, puts it, reads it back and compares it. Its row is WRITING.
///
/// # Errors
/// If the place does not take it or returns something else.
pub(super) async fn write(
    deployment: &Deployment,
    place: &Place,
    content: Content,
) -> Result<mirror_file::Model> {
    let Content { board, partition, seqs, mut frame } = content;
    let bytes = block_in_place(|| to_bytes(&mut frame))?;
    let file = name(deployment, (board, partition, seqs), frame.height(), &bytes).await?;
    put(place, &file, &bytes).await?;
    drop(bytes);
    let back = read(place, &file).await?;
    ensure!(
        back.equals_missing(&frame),
        "{}/{} does not read back as it was written",
        place.url,
        file.path
    );
    failpoint::hit("mirror-verified");
    Ok(file)
}

/// As [`write`], for the bytes of a file of the archive, whose checksum was compared.
///
/// # Errors
/// As [`write`].
pub(super) async fn adopt(
    deployment: &Deployment,
    place: &Place,
    of: (BoardNo, PartitionNo, (i64, i64)),
    (events, bytes): (usize, Vec<u8>),
) -> Result<mirror_file::Model> {
    let file = name(deployment, of, events, &bytes).await?;
    put(place, &file, &bytes).await?;
    drop(bytes);
    read(place, &file).await?;
    failpoint::hit("mirror-verified");
    Ok(file)
}

async fn name(
    deployment: &Deployment,
    (board, partition, (first_seq, last_seq)): (BoardNo, PartitionNo, (i64, i64)),
    events: usize,
    bytes: &[u8],
) -> Result<mirror_file::Model> {
    let sha256 = sha256_of(bytes);
    // Never a name that was there before: a run that was taken for dead may still remove that file.
    let path = format!(
        "{}/board-{board}/partition-{partition}/{first_seq:020}-{last_seq:020}-{}-{}.parquet",
        deployment.identity,
        &sha256[..NAME_DIGITS],
        &random_id()[..NAME_DIGITS]
    );
    let file = mirror_file::Model {
        path,
        board_no: board.0,
        partition: partition.into(),
        first_seq,
        last_seq,
        events: events as i64,
        bytes: bytes.len() as i64,
        sha256,
        state: State::Writing,
        created_at_ms: deployment.clock.now_ms(),
    };
    mirror::name(&deployment.db, &file)
        .await
        .context("another program is writing this file; wait until it ends")?;
    failpoint::hit("mirror-named");
    Ok(file)
}

async fn put(place: &Place, file: &mirror_file::Model, bytes: &[u8]) -> Result<()> {
    place.put(&file.path, bytes).await?;
    failpoint::hit("mirror-put");
    Ok(())
}

/// The events of a file that is as it was written.
///
/// # Errors
/// If it is missing or altered; the message says how.
pub(super) async fn read(place: &Place, file: &mirror_file::Model) -> Result<DataFrame> {
    let (url, path) = (&place.url, &file.path);
    let bytes = place.get(path, file.bytes.unsigned_abs()).await?;
    let bytes = bytes.with_context(|| format!("{url}/{path} is missing"))?;
    let (size, sha256) = (bytes.len() as i64, sha256_of(&bytes));
    ensure!(
        (size, &sha256) == (file.bytes, &file.sha256),
        "{url}/{path} was altered: expected {} bytes with SHA-256 {}, found {size} bytes with {sha256}",
        file.bytes,
        file.sha256
    );
    let frame = block_in_place(|| ParquetReader::new(Cursor::new(bytes)).finish())
        .with_context(|| format!("{url}/{path} cannot be read"))?;
    ensure!(
        frame.height() as i64 == file.events,
        "{url}/{path} has {} events, expected {}",
        frame.height(),
        file.events
    );
    Ok(frame)
}

fn to_bytes(frame: &mut DataFrame) -> Result<Vec<u8>> {
    let mut bytes = vec![];
    ParquetWriter::new(&mut bytes)
        .with_compression(ParquetCompression::Zstd(None))
        .finish(frame)?;
    Ok(bytes)
}
