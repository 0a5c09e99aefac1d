//! Generated events.

use serde_json::json;

use crate::deployment::Deployment;
use crate::jobs::analytics::run;

/// Member, score, Unix milliseconds.
pub type Event = (String, i64, i64);

/// Unix milliseconds of an instant.
pub fn ms(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

/// Generates events of up to 500 members.
pub fn generate(deployment: &Deployment, path: &str, more: &[&str]) {
    let arguments = ["generate", "--members", "500", "--out", path];
    let (code, told, error) = run(deployment, &[&arguments[..], more].concat());
    assert_eq!((code, &told["file"]), (0, &json!(path)), "{error}");
}

/// The events of a CSV file.
pub fn csv_events(path: &str) -> Vec<Event> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    assert_eq!(reader.headers().unwrap(), vec!["member", "score", "at"]);
    let event = |row: csv::StringRecord| (row[0].to_owned(), row[1].parse().unwrap(), ms(&row[2]));
    reader.records().map(|row| event(row.unwrap())).collect()
}
