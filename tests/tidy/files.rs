//! Length, names and first lines of files.

use crate::tree::{files, report};

/// The most lines of a file, with its tests.
const LINES_MAX: usize = 400;

/// Names that say nothing.
const DRAWERS: [&str; 8] =
    ["common", "core", "helper", "helpers", "manager", "mod", "util", "utils"];

#[test]
fn a_file_has_at_most_400_lines() {
    let mut findings = vec![];
    let files = files(&[".rs"]);
    for file in &files {
        let length = file.text.lines().count();
        if length > LINES_MAX {
            let remedy = format!("{length} lines: split it by nouns, to at most {LINES_MAX}");
            findings.push(file.at(LINES_MAX + 1, &remedy));
        }
    }
    report(findings);
}

#[test]
fn no_file_is_a_drawer() {
    let mut findings = vec![];
    for file in files(&[".rs", ".js", ".jsx", ".py", ".lua", ".sql"]) {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        if DRAWERS.contains(&name.split('.').next().unwrap_or_default()) {
            findings.push(
                file.at(1, "name it for the noun that it holds; foo.rs and foo/, never mod.rs"),
            );
        }
    }
    report(findings);
}

#[test]
fn a_file_begins_with_a_sentence_about_itself() {
    let mut findings = vec![];
    for file in files(&[".rs"]) {
        let lines = file.text.lines().map_while(|line| line.strip_prefix("//! "));
        let paragraph: Vec<&str> = lines.collect();
        let is_sentence = paragraph.last().is_some_and(|last| last.ends_with(['.', ':', '?']));
        if !is_sentence {
            findings.push(
                file.at(1, "begin with `//!` and a sentence: the one thing that the file is for"),
            );
        }
    }
    report(findings);
}
