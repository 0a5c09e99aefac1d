//! How a board is shown to people, and how they find it.

use ranking::score::format::ScoreFormat;
use serde::{Deserialize, Serialize};

use super::seen::Seen;
use crate::member::fold_name;

/// The texts and tags by which people know a board, as JSON in the column `display`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Display {
    /// The description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The address of an icon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon_url: Option<String>,
    /// The tags, in the order given; each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The form of its scores.
    pub format: ScoreFormat,
}

impl Display {
    /// The text of the column; `None` if all is empty.
    pub fn to_column(&self) -> Option<String> {
        let has_some = *self != Self::default();
        has_some.then(|| serde_json::to_string(self).expect("texts have a JSON form"))
    }
}

/// The lines that a search looks at: the slug, the title in lower case, and each tag behind `#`.
pub fn search_lines(slug: &str, title: &str, tags: &[String]) -> String {
    let tags: String = tags.iter().map(|tag| format!("#{tag}\n")).collect();
    format!("\n{slug}\n{}\n{tags}", fold_name(title))
}

/// The boards to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Filter {
    /// The boards that the client sees.
    pub seen: Seen,
    /// A part of the slug or the title, whatever its case.
    pub text: Option<String>,
    /// Tags that a board has, all of them.
    pub tags: Vec<String>,
}

impl Filter {
    /// True if SQL has to look into the boards, one by one.
    pub fn is_search(&self) -> bool {
        self.text.is_some() || !self.tags.is_empty()
    }

    /// The patterns of SQL's LIKE that the lines of a board match, escaped by `!`.
    pub(super) fn patterns(&self) -> impl Iterator<Item = String> {
        let text = self.text.iter().map(|text| fold_name(text));
        let tags = self.tags.iter().map(|tag| format!("\n#{tag}\n"));
        text.chain(tags).map(|part| format!("%{}%", escaped(&part)))
    }
}

/// A text in which `%`, `_` and `!` stand for themselves.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if matches!(character, '%' | '_' | '!') {
            escaped.push('!');
        }
        escaped.push(character);
    }
    escaped
}
