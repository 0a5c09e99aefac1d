//! Pages: a sentence a line, and links that lead somewhere.

use std::collections::BTreeSet;
use std::path::Path;

use tests::servers::program::root;

use crate::tree::{SourceFile, files, read, report};

/// The most lines of the page that a newcomer reads first.
const README_LINES_MAX: usize = 120;

/// Abbreviations whose full stop ends no sentence.
const ABBREVIATIONS: [&str; 5] = ["e.g.", "i.e.", "etc.", "vs.", "cf."];

/// Signs that may stand between a sentence's end and the space after it, or that space and the next
/// sentence.
const CLOSING: [char; 4] = [')', '*', '_', '"'];
const OPENING: [char; 5] = ['(', '*', '_', '"', '['];

/// The lines outside blocks of code and comments; spans of code in them are empty.
fn text(page: &SourceFile) -> Vec<(usize, String)> {
    let (mut is_code, mut is_comment) = (false, false);
    let mut lines = vec![];
    for (number, line) in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            is_comment |= line.starts_with("<!--");
            if !is_comment {
                let parts = line.split('`').enumerate();
                let outside = parts.map(|(index, part)| if index % 2 == 0 { part } else { "" });
                lines.push((number, outside.collect::<Vec<_>>().join("`")));
            }
            is_comment &= !line.contains("-->");
        }
    }
    lines
}

/// True if a sentence ends within a line and another one begins there.
fn has_two_sentences(line: &str) -> bool {
    let line = without_lead(line);
    line.match_indices(['.', '?', '!']).any(|(end, sign)| {
        let end = end + sign.len();
        let rest = line[end..].trim_start_matches(CLOSING);
        let next = rest.trim_start().trim_start_matches(OPENING);
        rest.starts_with(' ')
            && next.starts_with(char::is_uppercase)
            && !ABBREVIATIONS.iter().any(|abbreviation| line[..end].ends_with(abbreviation))
    })
}

/// A line without the mark of a list and an emphasized heading, as in `1. **Close.** The row says`.
fn without_lead(line: &str) -> &str {
    let line = line.trim_start();
    let after_number = line.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix(". ");
    let item = line.strip_prefix("* ").or(line.strip_prefix("- ")).or(after_number);
    let item = item.unwrap_or(line);
    let mark = ["**", "*"].into_iter().find(|mark| item.starts_with(mark));
    let after_heading = mark.and_then(|mark| item[mark.len()..].split_once(mark));
    after_heading.map_or(item, |(_, rest)| rest)
}

/// The anchors of a page's headings, as forges make them.
fn anchors(page: &SourceFile) -> BTreeSet<String> {
    let mut is_code = false;
    let mut anchors = BTreeSet::new();
    for line in page.text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        if is_code || !line.starts_with('#') {
            continue;
        }
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let (mut unique, mut others) = (anchor.clone(), 0);
        while !anchors.insert(unique) {
            others += 1;
            unique = format!("{anchor}-{others}");
        }
    }
    anchors
}

/// The targets of the links and pictures of a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let ends = line.split("](").skip(1);
    ends.filter_map(|end| end.split([')', ' ']).next())
}

#[test]
fn a_line_has_one_sentence() {
    let mut findings = vec![];
    for page in files(&[".md"]) {
        for (number, line) in text(&page) {
            let is_prose = !line.trim_start().starts_with(['|', '#']);
            if is_prose && has_two_sentences(&line) {
                findings.push(page.at(number, "begin a new line with each sentence"));
            }
        }
    }
    report(findings);
}

#[test]
fn sentences_are_told_from_abbreviations_and_headings() {
    for two in
        ["One. Two", "* One (here). Two", "One? [Two](x)", "1. **Lead.** One. Two", "`x`. Two"]
    {
        assert!(has_two_sentences(two), "{two}");
    }
    for one in
        ["One, e.g. Two.", "1. One", "* **Lead.** One.", "Version 1.2 has it", "`x. Y` is code"]
    {
        let page = SourceFile { path: String::new(), text: one.to_owned() };
        assert!(!has_two_sentences(&text(&page)[0].1), "{one}");
    }
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut findings = vec![];
    for page in files(&[".md"]) {
        let folder = Path::new(&page.path).parent().unwrap_or(Path::new(""));
        for (number, line) in text(&page) {
            for target in targets(&line).filter(|target| !target.contains(':')) {
                let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
                let linked = match path {
                    "" => page.path.clone(),
                    path => folder.join(path).to_string_lossy().into_owned(),
                };
                if !root().join(&linked).exists() {
                    findings.push(page.at(number, &format!("{target} does not exist")));
                } else if !anchor.is_empty()
                    && linked.ends_with(".md")
                    && !anchors(&read(&linked)).contains(anchor)
                {
                    findings
                        .push(page.at(number, &format!("{target}: no heading has this anchor")));
                }
            }
        }
    }
    report(findings);
}

#[test]
fn the_readme_has_at_most_120_lines() {
    let length = read("README.md").text.lines().count();
    assert!(length <= README_LINES_MAX, "README.md has {length} lines: move some to docs/");
}

#[test]
fn the_changelog_takes_unreleased_changes() {
    let changelog = read("CHANGELOG.md");
    assert!(
        changelog.text.lines().any(|line| line == "## [Unreleased]"),
        "CHANGELOG.md:1: begin with `## [Unreleased]`, which lists what a user will notice"
    );
}
