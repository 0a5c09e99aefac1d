//! Guards: every field of a query, a mutation or a subscription says what a client needs for it.

use crate::tree::{read, report};

/// The files with the roots of the schema.
const ROOTS: [&str; 4] = [
    "api/src/graphql/mutation.rs",
    "api/src/graphql/mutation/operation.rs",
    "api/src/graphql/query.rs",
    "api/src/graphql/subscription.rs",
];

/// The lines at which they begin.
const BEGINS: [&str; 4] =
    ["impl Query {", "impl GameMutation {", "impl OperationMutation {", "impl Subscription {"];

#[test]
fn every_field_of_a_root_has_a_guard() {
    let mut findings = vec![];
    for path in ROOTS {
        let file = read(path);
        let (mut is_field, mut has_guard) = (false, false);
        for (index, line) in file.text.lines().enumerate() {
            let is_of_root = BEGINS.contains(&line);
            is_field = (is_field || is_of_root) && line != "}";
            has_guard |= line.contains("guard = \"Needs::");
            if line.trim_start().starts_with("async fn ") {
                if is_field && !has_guard {
                    findings
                        .push(file.at(index + 1, "say what a client needs: guard = \"Needs::…\""));
                }
                has_guard = false;
            }
        }
    }
    report(findings);
}
