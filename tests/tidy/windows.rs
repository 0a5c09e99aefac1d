//! Matches on windows: a new kind of window must be thought of in each.

use crate::tree::{SourceFile, files, has_word, report};

/// An arm that takes all windows that are left.
const REST: [&str; 2] = ["_ =>", "_ if "];

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The lines with patterns of the match that begins at a line.
fn arms<'a>(lines: &[(usize, &'a str)], begin: usize) -> Vec<(usize, &'a str)> {
    let outer = indentation(lines[begin].1);
    let inner = lines[begin + 1..]
        .iter()
        .take_while(|(_, line)| line.trim().is_empty() || indentation(line) > outer);
    inner
        .filter(|(_, line)| indentation(line) == outer + 4)
        .map(|(number, line)| (*number, line.trim()))
        .collect()
}

/// True if the pattern of an arm names a window.
fn names_window(file: &SourceFile, arm: &str) -> bool {
    let pattern = arm.split("=>").next().unwrap_or_default();
    let pattern = pattern.split(" if ").next().unwrap_or_default();
    let is_own = file.path.starts_with("ranking/src/window");
    let is_variant = |(start, name): (usize, &str)| {
        let (before, after) = (&pattern[..start], &pattern[start + name.len()..]);
        !before.ends_with(char::is_alphanumeric) && after.starts_with(char::is_uppercase)
    };
    pattern.match_indices("Window::").any(is_variant)
        || is_own && pattern.match_indices("Self::").any(is_variant)
}

#[test]
fn no_match_on_windows_ends_in_a_wildcard() {
    let mut findings = vec![];
    for file in files(&[".rs"]) {
        let lines: Vec<(usize, &str)> = file.code().collect();
        for (begin, (_, line)) in lines.iter().enumerate() {
            if !has_word(line, "match") || !line.trim_end().ends_with('{') {
                continue;
            }
            let arms = arms(&lines, begin);
            if !arms.iter().any(|(_, arm)| names_window(&file, arm)) {
                continue;
            }
            for (number, _) in
                arms.iter().filter(|(_, arm)| REST.iter().any(|rest| arm.starts_with(rest)))
            {
                findings.push(
                    file.at(*number, "name every kind of window: a new one must not pass unseen"),
                );
            }
        }
    }
    report(findings);
}
