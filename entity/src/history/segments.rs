//! The segments of an event besides everyone, as a column of text.

/// The segments in a column.
///
/// # Errors
/// `Corrupt` if they are not a JSON array of texts.
pub(crate) fn of(text: &str) -> ranking::Result<Vec<String>> {
    if text == "[]" {
        return Ok(vec![]);
    }
    serde_json::from_str(text)
        .map_err(|error| ranking::Error::Corrupt(format!("an event's segments: {error}")))
}

/// Segments as JSON, the form of the column.
pub fn text(segments: &[String]) -> String {
    serde_json::to_string(segments).expect("texts have a JSON form")
}
