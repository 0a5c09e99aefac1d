//! The demo's events, read from their file.

use std::io::Read;

use crate::servers::program;

/// An event of the file: board, member, Unix seconds, lines.
pub type Row = (String, String, i64, i64);

/// Every event of the file.
pub fn rows() -> Vec<Row> {
    let file = std::fs::File::open(program::root().join("api/demo/commits.csv.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let rows = reader.records().map(|record| {
        let record = record.unwrap();
        (
            record[0].to_owned(),
            record[1].to_owned(),
            record[2].parse().unwrap(),
            record[4].parse().unwrap(),
        )
    });
    rows.collect()
}
