//! The diff, and its findings.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::deployment::Deployment;

/// Checks that the diff finds nothing.
pub fn check_diff(deployment: &Deployment) {
    let output = deployment.analytics(&["diff"]);
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}{error}");
}

/// The findings of a diff: kind, place, member.
pub fn findings(found: &Value) -> BTreeSet<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let list = found["findings"].as_array().unwrap().iter();
    list.map(|finding| (text(&finding["kind"]), text(&finding["place"]), text(&finding["member"])))
        .collect()
}

/// Findings in the form that [`findings`] returns.
pub fn finding_set(expected: &[(&str, &str, &str)]) -> BTreeSet<(String, String, String)> {
    let owned = |&(kind, place, member): &(&str, &str, &str)| {
        (kind.to_owned(), place.to_owned(), member.to_owned())
    };
    expected.iter().map(owned).collect()
}
