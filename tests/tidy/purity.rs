//! The rules of ranking: time is an argument, and only the store speaks to Redis.

use crate::tree::{SourceFile, files, has_word, report};

/// Sources of time and of settings.
const CLOCK_AND_ENVIRONMENT: [&str; 5] =
    ["SystemTime", "Instant::now", "Timestamp::now", "Zoned::now", "std::env"];

/// Signs of input and output.
const STORE: [&str; 4] = ["redis", "tokio", "async", "crate::store"];

fn ranking() -> impl Iterator<Item = SourceFile> {
    files(&[".rs"]).into_iter().filter(|file| file.path.starts_with("ranking/src/"))
}

#[test]
fn ranking_reads_no_clock_and_no_environment() {
    let mut findings = vec![];
    for file in ranking() {
        for (number, line) in file.code() {
            for name in CLOCK_AND_ENVIRONMENT.into_iter().filter(|name| has_word(line, name)) {
                findings.push(
                    file.at(
                        number,
                        &format!("{name}: take the time or the setting as an argument"),
                    ),
                );
            }
        }
    }
    report(findings);
}

#[test]
fn only_the_store_of_ranking_knows_redis() {
    let mut findings = vec![];
    for file in ranking().filter(|file| !file.path.starts_with("ranking/src/store")) {
        for (number, line) in file.code() {
            for name in STORE.into_iter().filter(|name| has_word(line, name)) {
                findings.push(
                    file.at(
                        number,
                        &format!("{name}: rules compute; move it to ranking/src/store"),
                    ),
                );
            }
        }
    }
    report(findings);
}
