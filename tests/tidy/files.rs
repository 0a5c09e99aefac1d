//! Length, names and first lines of files.

use crate::tree::{files, report};

/// The most lines of a file, with its tests.
const LINES_MAX: usize = 400;

/// The most lines of a function, tests apart.
const FUNCTION_LINES_MAX: usize = 70;

/// Words that may stand before `fn`.
const QUALIFIERS: [&str; 5] = ["pub", "pub(crate)", "pub(super)", "async", "const"];

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

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// True if a function begins on a line, and does not end there.
fn begins_function(line: &str) -> bool {
    line.split_once("fn ").is_some_and(|(before, after)| {
        before.split_whitespace().all(|word| QUALIFIERS.contains(&word)) && !after.ends_with('}')
    })
}

/// The lines of the function that begins on the first one.
fn function_length(lines: &[&str]) -> usize {
    let outer = indentation(lines[0]);
    let is_end = |line: &&str| {
        indentation(line) == outer && (line.trim() == "}" || line.trim_end().ends_with(';'))
    };
    lines.iter().position(is_end).map_or(lines.len(), |last| last + 1)
}

#[test]
fn a_function_of_the_programs_has_at_most_70_lines() {
    let mut findings = vec![];
    for file in files(&[".rs"]).iter().filter(|file| !file.path.contains("tests/")) {
        let lines: Vec<&str> = file.text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            if begins_function(line) && function_length(&lines[index..]) > FUNCTION_LINES_MAX {
                let remedy = format!("a function of over {FUNCTION_LINES_MAX} lines: split it");
                findings.push(file.at(index + 1, &remedy));
            }
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
