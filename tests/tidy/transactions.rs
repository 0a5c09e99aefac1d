//! Transactions: each begins in a task of its own, so that a dropped request leaves none open.

use crate::tree::{files, report};

/// Calls that begin a transaction where they stand.
const BEGINS: [&str; 4] =
    [".begin(", ".begin_with_config(", ".begin_with_options(", ".transaction("];

/// The files that may: the function that all others call, and the steps of the schema, which no
/// request runs.
const ALLOWED: [&str; 2] = ["entity/src/sql.rs", "migration/src/"];

#[test]
fn transactions_begin_in_one_place() {
    let mut findings = vec![];
    let is_allowed = |path: &str| ALLOWED.iter().any(|allowed| path.starts_with(allowed));
    let is_this = |path: &str| path == "tests/tidy/transactions.rs";
    for file in files(&[".rs"]) {
        if is_allowed(&file.path) || is_this(&file.path) {
            continue;
        }
        for (number, line) in file.code() {
            if BEGINS.iter().any(|begins| line.contains(begins)) {
                findings.push(file.at(number, "call begin or begin_view of entity/src/sql.rs"));
            }
        }
    }
    report(findings);
}
