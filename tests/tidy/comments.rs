//! Comments: their width, and words that the style bans.

use crate::tree::{files, has_word, report};

/// The most columns of a line of comment, its indentation included.
const COLUMNS_MAX: usize = 100;

/// Words for which a noun, or an actor with a verb, reads better.
const BANNED: [&str; 5] = ["whoever", "nobody", "somebody", "anew", "a standings"];

/// Openings of sentences, with the same remedy.
const BANNED_OPENINGS: [&str; 3] = ["What ", "Who ", "Whether "];

/// Marks of unfinished work. Each is cut in two, as this file is searched, too.
const LEFT_OVER: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("to", "do!"), concat!("db", "g!")];

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

#[test]
fn comments_have_at_most_100_columns() {
    let mut findings = vec![];
    for file in files(&[".rs"]) {
        for (number, line) in file.lines().filter(|(_, line)| is_comment(line)) {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX {
                let remedy = format!("{columns} columns: wrap it at {COLUMNS_MAX}");
                findings.push(file.at(number, &remedy));
            }
        }
    }
    report(findings);
}

#[test]
fn prose_names_the_actor() {
    let mut findings = vec![];
    for file in files(&[".rs", ".md", ".graphql", ".lua"]) {
        let is_rust = file.path.ends_with(".rs");
        for (number, line) in file.lines().filter(|(_, line)| !is_rust || is_comment(line)) {
            let line = line.to_lowercase();
            for word in BANNED.into_iter().filter(|word| has_word(&line, word)) {
                let remedy = format!(
                    "{word:?}: name the reader, writer, member or job, or say it in another way"
                );
                findings.push(file.at(number, &remedy));
            }
        }
    }
    report(findings);
}

#[test]
fn sentences_begin_with_a_noun() {
    let mut findings = vec![];
    for file in files(&[".rs", ".md", ".graphql", ".lua"]) {
        let is_rust = file.path.ends_with(".rs");
        for (number, line) in file.lines().filter(|(_, line)| !is_rust || is_comment(line)) {
            let text = line.trim_start_matches(|c: char| !c.is_alphabetic());
            for opening in BANNED_OPENINGS {
                if text.starts_with(opening) || line.contains(&format!(". {opening}")) {
                    let remedy = format!("{opening:?}: begin with a noun, or with the actor");
                    findings.push(file.at(number, &remedy));
                }
            }
        }
    }
    report(findings);
}

#[test]
fn no_work_is_left_in_comments_or_code() {
    let mut findings = vec![];
    for file in files(&[".rs", ".md", ".graphql", ".lua", ".sql", ".js", ".jsx", ".py"]) {
        for (number, line) in file.lines() {
            for mark in LEFT_OVER.into_iter().filter(|mark| line.contains(mark)) {
                findings.push(file.at(number, &format!("{mark}: do it, or open an issue")));
            }
        }
    }
    report(findings);
}
