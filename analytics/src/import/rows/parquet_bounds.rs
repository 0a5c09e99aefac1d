//! The bounds on a Parquet file, by its footer, before anything is decoded: a few bytes can stand
//! for millions of rows.

use std::path::Path;

use anyhow::{Result, ensure};
use polars::prelude::FileMetadata;

use crate::display_path;
use crate::import::input_file::check_rows;

/// The most rows that are decoded at once.
const DECODED_ROWS: usize = 1 << 20;

/// The most bytes of a row group, all columns that are read together, before they are compressed.
const ROW_GROUP_BYTES_MAX: u64 = 1 << 30;

/// The numbers of rows of the parts in which a file is decoded, one after the other; none crosses
/// the end of a row group.
///
/// # Errors
/// If the file has more than `rows_max` rows, or a row group whose `columns` are too large.
pub(crate) fn decodable_parts(
    path: &Path,
    footer: &FileMetadata,
    columns: &[String],
    rows_max: u64,
) -> Result<Vec<usize>> {
    let rows = footer.row_groups.iter().map(|group| group.num_rows() as u64);
    check_rows(path, rows.fold(0, u64::saturating_add), rows_max)?;
    for group in &footer.row_groups {
        let read = group.parquet_columns().iter().filter(|column| {
            let root = column.descriptor().path_in_schema.first();
            root.is_some_and(|root| columns.iter().any(|name| name == root.as_str()))
        });
        check_row_group(path, read.map(|column| column.uncompressed_size()))?;
    }
    Ok(footer.row_groups.iter().flat_map(|group| parts(group.num_rows())).collect())
}

/// Checks the sizes of a row group's columns, as the footer gives them.
fn check_row_group(path: &Path, sizes: impl Iterator<Item = i64>) -> Result<()> {
    // A negative size is as wrong as one that is too large.
    let sizes = sizes.map(|size| u64::try_from(size).unwrap_or(u64::MAX));
    let bytes = sizes.fold(0, u64::saturating_add);
    ensure!(
        bytes <= ROW_GROUP_BYTES_MAX,
        "{} has a row group of {bytes} bytes: expected at most {ROW_GROUP_BYTES_MAX}",
        display_path(path)
    );
    Ok(())
}

/// The numbers of rows of the parts in which a row group is decoded.
fn parts(rows: usize) -> impl Iterator<Item = usize> {
    (0..rows).step_by(DECODED_ROWS).map(move |from| DECODED_ROWS.min(rows - from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_group_is_decoded_in_parts_that_add_up() {
        for rows in [0, 1, DECODED_ROWS - 1, DECODED_ROWS, DECODED_ROWS + 1, 3 * DECODED_ROWS] {
            let parts: Vec<usize> = parts(rows).collect();
            assert_eq!(parts.iter().sum::<usize>(), rows);
            assert!(parts.iter().all(|part| (1..=DECODED_ROWS).contains(part)), "{parts:?}");
        }
    }

    #[test]
    fn a_footer_that_promises_too_much_is_refused_before_anything_is_decoded() {
        let path = Path::new("f.parquet");
        check_row_group(path, [1, 1 << 29].into_iter()).unwrap();
        for sizes in [[1 << 30, 1], [-1, 0], [i64::MAX, i64::MAX]] {
            let refused = check_row_group(path, sizes.into_iter()).unwrap_err().to_string();
            assert!(refused.contains("expected at most 1073741824"), "{refused}");
        }
    }
}
