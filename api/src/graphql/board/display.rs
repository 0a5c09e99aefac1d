//! How a board is shown to people: its description, icon, tags and the form of its scores.

use async_graphql::{Enum, InputObject, MaybeUndefined, SimpleObject};
use entity::board;
use entity::board::display::search_lines;
use ranking::score::format::ScoreFormat as Format;
use ranking::shown;
use ranking::text::is_presentable;
use url::Url;

use crate::error::{Error, Result};

/// The longest description of a board, in characters.
const DESCRIPTION_CHARS_MAX: usize = 500;

/// The longest address of a picture, in bytes.
const PICTURE_URL_BYTES_MAX: usize = 500;

/// The most tags of a board, and of a search for boards.
pub(crate) const TAGS_MAX: usize = 10;

/// The longest tag, in bytes.
const TAG_BYTES_MAX: usize = 32;

/// The longest text behind a score, in characters.
const SUFFIX_CHARS_MAX: usize = 16;

/// The form of shown scores.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreStyle {
    /// The score as it is, perhaps with a suffix: "1234.50 pts".
    Plain,
    /// A time in seconds: "0:42.10", "1:02:03".
    Seconds,
    /// A time in milliseconds, shown as one in seconds: "0:42.100".
    Milliseconds,
    /// An amount of money: "1,234.50 EUR".
    Money,
}

/// The form in which the scores of a board are shown.
#[derive(SimpleObject)]
pub struct ScoreFormat {
    /// The form.
    style: ScoreStyle,
    /// The currency of MONEY, by its code of ISO 4217; otherwise null.
    currency: Option<String>,
    /// The text behind scores of the form PLAIN; null for none.
    suffix: Option<String>,
}

/// The form in which the scores of a board are shown.
#[derive(InputObject)]
pub struct ScoreFormatInput {
    /// The form.
    #[graphql(default_with = "Some(ScoreStyle::Plain)")]
    style: Option<ScoreStyle>,
    /// The currency of MONEY, by its code of ISO 4217, such as "EUR".
    currency: Option<String>,
    /// The text behind scores of the form PLAIN, such as "pts": at most 16 characters.
    suffix: Option<String>,
}

/// The texts and tags by which people know a board; absent fields stay as they are.
#[derive(InputObject)]
pub struct BoardDisplayInput {
    /// The description, at most 500 characters; null for none.
    description: MaybeUndefined<String>,
    /// The address of an icon, http or https, at most 500 bytes; null for none.
    icon_url: MaybeUndefined<String>,
    /// The tags to find the board by, at most 10: [a-z0-9][a-z0-9_-]{0,31}.
    tags: Option<Vec<String>>,
    /// The form in which scores are shown; null for plain ones.
    score_format: MaybeUndefined<ScoreFormatInput>,
}

impl From<&Format> for ScoreFormat {
    fn from(format: &Format) -> Self {
        let (style, currency, suffix) = match format.clone() {
            Format::Plain { suffix } => (ScoreStyle::Plain, None, suffix),
            Format::Seconds => (ScoreStyle::Seconds, None, None),
            Format::Milliseconds => (ScoreStyle::Milliseconds, None, None),
            Format::Money { currency } => (ScoreStyle::Money, Some(currency), None),
        };
        Self { style, currency, suffix }
    }
}

impl BoardDisplayInput {
    /// Writes the changes into the row of a board, which has its new title.
    ///
    /// # Errors
    /// `BAD_USER_INPUT`, `LIMIT_EXCEEDED` for too many tags.
    pub(crate) fn apply(&self, row: &mut board::Model) -> Result<()> {
        let mut display = row.display()?;
        if let Some(description) = self.description.as_opt_ref() {
            display.description = description.map(|text| description_of(text)).transpose()?;
        }
        if let Some(address) = self.icon_url.as_opt_ref() {
            display.icon_url =
                address.map(|address| picture_url("iconUrl", address)).transpose()?;
        }
        if let Some(tags) = &self.tags {
            display.tags = checked_tags(tags)?;
        }
        if let Some(format) = self.score_format.as_opt_ref() {
            display.format = format.map(format_of).transpose()?.unwrap_or_default();
        }
        row.search = search_lines(&row.slug, &row.title, &display.tags);
        row.display = display.to_column();
        Ok(())
    }
}

fn description_of(text: &str) -> Result<String> {
    let lines = text.lines().filter(|line| !line.is_empty());
    if text.chars().count() <= DESCRIPTION_CHARS_MAX
        && !text.trim().is_empty()
        && lines.clone().all(is_presentable)
    {
        return Ok(text.to_owned());
    }
    Err(Error::bad_input(format!(
        "invalid description: expected 1 to {DESCRIPTION_CHARS_MAX} characters that are not blank, without control characters but line breaks, invisible ones or ones that change its direction"
    ))
    .at("description"))
}

/// Checks the address of a picture.
///
/// # Errors
/// `BAD_USER_INPUT` for anything but a bounded http or https URL without a password.
pub(crate) fn picture_url(name: &str, address: &str) -> Result<String> {
    let is_good = |url: &Url| {
        matches!(url.scheme(), "https" | "http")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
    };
    let is_plain =
        |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'\\');
    if address.len() <= PICTURE_URL_BYTES_MAX
        && address.bytes().all(is_plain)
        && Url::parse(address).is_ok_and(|url| is_good(&url))
    {
        return Ok(address.to_owned());
    }
    Err(Error::bad_input(format!(
        "invalid {name} {}: expected an http or https URL of at most {PICTURE_URL_BYTES_MAX} bytes, encoded, without a user name",
        shown(address)
    ))
    .at(name))
}

/// Checks tags, of a board or of a search; each stays once.
///
/// # Errors
/// `BAD_USER_INPUT`, `LIMIT_EXCEEDED` for more than 10.
pub(crate) fn checked_tags(tags: &[String]) -> Result<Vec<String>> {
    if tags.len() > TAGS_MAX {
        let message = format!("{} tags given: expected at most {TAGS_MAX}", tags.len());
        return Err(Error::limit_exceeded(message).at("tags"));
    }
    let mut checked: Vec<String> = vec![];
    for tag in tags {
        if ranking::id::check_slug(tag).is_err() || tag.len() > TAG_BYTES_MAX {
            return Err(Error::bad_input(format!(
                "invalid tag {}: expected 1 to {TAG_BYTES_MAX} characters from a-z, 0-9, _ and -, the first a letter or digit",
                shown(tag)
            ))
            .at("tags"));
        }
        if !checked.contains(tag) {
            checked.push(tag.clone());
        }
    }
    Ok(checked)
}

fn format_of(input: &ScoreFormatInput) -> Result<Format> {
    let style = input.style.unwrap_or(ScoreStyle::Plain);
    let misplaced = |name: &str, style: &str| {
        let message = format!("invalid {name}: expected it with style {style} only");
        Err(Error::bad_input(message).at(format!("scoreFormat.{name}")))
    };
    if input.suffix.is_some() && style != ScoreStyle::Plain {
        return misplaced("suffix", "PLAIN");
    }
    if input.currency.is_some() && style != ScoreStyle::Money {
        return misplaced("currency", "MONEY");
    }
    Ok(match style {
        ScoreStyle::Plain => {
            Format::Plain { suffix: input.suffix.as_deref().map(suffix).transpose()? }
        }
        ScoreStyle::Seconds => Format::Seconds,
        ScoreStyle::Milliseconds => Format::Milliseconds,
        ScoreStyle::Money => Format::Money { currency: currency(input.currency.as_deref())? },
    })
}

fn suffix(text: &str) -> Result<String> {
    if text.chars().count() <= SUFFIX_CHARS_MAX && is_presentable(text) {
        return Ok(text.to_owned());
    }
    Err(Error::bad_input(format!(
        "invalid suffix: expected 1 to {SUFFIX_CHARS_MAX} characters that are not blank, without control characters, invisible ones or ones that change its direction"
    ))
    .at("scoreFormat.suffix"))
}

fn currency(code: Option<&str>) -> Result<String> {
    let code = code.unwrap_or_default();
    if code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Ok(code.to_owned());
    }
    Err(Error::bad_input(format!(
        "invalid currency {}: expected three letters of ISO 4217, such as \"EUR\"",
        shown(code)
    ))
    .at("scoreFormat.currency"))
}
