//! The text files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use tests::servers::program::root;

/// Directories of what is built, installed or served; those whose name begins with a dot are left
/// out as well.
const LEFT_OUT: [&str; 4] = ["target", "node_modules", "dist", "data"];

/// A file of the repository.
pub struct SourceFile {
    /// The path from the root, with slashes.
    pub path: String,
    /// The content.
    pub text: String,
}

impl SourceFile {
    /// The lines, counted from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// The lines of the program alone: none of the test module at the foot, and no comments.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let end = self.text.find("\n#[cfg(test)]\nmod ").unwrap_or(self.text.len());
        let lines = self.text[..end].lines().enumerate();
        lines.map(|(index, line)| (index + 1, line.split("//").next().unwrap_or_default()))
    }

    /// The place of a finding, and its remedy.
    pub fn at(&self, line: usize, remedy: &str) -> String {
        format!("{}:{line}: {remedy}", self.path)
    }
}

/// The text of one file.
pub fn read(path: &str) -> SourceFile {
    let text = fs::read_to_string(root().join(path));
    SourceFile {
        path: path.to_owned(),
        text: text.unwrap_or_else(|error| panic!("{path}: {error}")),
    }
}

/// All files with one of these endings, by path.
pub fn files(endings: &[&str]) -> Vec<SourceFile> {
    let root = root();
    let mut paths = vec![];
    collect(&root, endings, &mut paths);
    let relative = |path: PathBuf| {
        let path = path.strip_prefix(&root).expect("it lies below the root").to_owned();
        path.to_str().expect("names are of UTF-8").to_owned()
    };
    let mut paths: Vec<String> = paths.into_iter().map(relative).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no file ends in {endings:?}");
    paths.iter().map(|path| read(path)).collect()
}

fn collect(directory: &Path, endings: &[&str], paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory can be read") {
        let entry = entry.expect("a directory can be read");
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().expect("a file has a kind");
        if kind.is_dir() && !name.starts_with('.') && !LEFT_OUT.contains(&name.as_str()) {
            collect(&entry.path(), endings, paths);
        } else if kind.is_file() && endings.iter().any(|ending| name.ends_with(ending)) {
            paths.push(entry.path());
        }
    }
}

/// Fails with the findings, if there are any.
pub fn report(findings: Vec<String>) {
    assert!(findings.is_empty(), "{} places:\n{}", findings.len(), findings.join("\n"));
}

/// True if a text has a word, with no letter, digit or underscore beside it.
pub fn has_word(text: &str, word: &str) -> bool {
    let is_part = |letter: Option<char>| letter.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(start, _)| {
        let (before, after) = (&text[..start], &text[start + word.len()..]);
        !is_part(before.chars().next_back()) && !is_part(after.chars().next())
    })
}
