//! Texts that name a thing to people: those that look like another name, or like none, are refused.
//!
//! The tables follow the Unicode Character Database: `Bidi_Control` of PropList.txt, and
//! `Default_Ignorable_Code_Point` of DerivedCoreProperties.txt. Of the latter, names have variation
//! selectors, fillers and tags only where emoji, flags and scripts are written with them.

use unicode_properties::{GeneralCategoryGroup, UnicodeEmoji as _, UnicodeGeneralCategory as _};

use crate::error::{Error, Result};

/// The most combining marks in a row in a name: more of them run over the lines around it.
const MARKS_MAX: usize = 5;

/// The most tags in a row: those of a flag, such as that of a region, and their end.
const FLAG_TAGS_MAX: usize = 7;

/// Characters that change the order in which others are shown (`Bidi_Control`).
const BIDI_CONTROLS: [(char, char); 4] = [
    ('\u{61C}', '\u{61C}'),
    ('\u{200E}', '\u{200F}'),
    ('\u{202A}', '\u{202E}'),
    ('\u{2066}', '\u{2069}'),
];

/// Characters that are not shown at all, but for the joiners.
const INVISIBLE: [(char, char); 11] = [
    ('\u{AD}', '\u{AD}'),
    ('\u{34F}', '\u{34F}'),
    ('\u{180E}', '\u{180E}'),
    ('\u{200B}', '\u{200B}'),
    ('\u{2060}', '\u{2065}'),
    ('\u{206A}', '\u{206F}'),
    ('\u{FEFF}', '\u{FEFF}'),
    ('\u{FFF0}', '\u{FFFB}'),
    ('\u{17B4}', '\u{17B5}'),
    ('\u{13430}', '\u{1345F}'),
    ('\u{1D173}', '\u{1D17A}'),
];

/// Characters that are not shown in a key: fillers, variation selectors and tags, which names may
/// have where [`belongs`] says so.
const INVISIBLE_IN_KEYS: [(char, char); 7] = [
    ('\u{115F}', '\u{1160}'),
    ('\u{180B}', '\u{180F}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{FE00}', '\u{FE0F}'),
    ('\u{FFA0}', '\u{FFA0}'),
    ('\u{1BCA0}', '\u{1BCA3}'),
    ('\u{E0000}', '\u{E0FFF}'),
];

/// The characters that have variants by selectors of their own: Chinese ones.
const IDEOGRAPHS: [(char, char); 3] =
    [('\u{2E80}', '\u{9FFF}'), ('\u{F900}', '\u{FAFF}'), ('\u{20000}', '\u{3FFFD}')];

/// The tags of flags.
const TAGS: (char, char) = ('\u{E0020}', '\u{E007F}');

/// The line and the paragraph separator.
const SEPARATORS: (char, char) = ('\u{2028}', '\u{2029}');

/// The non-joiner and the joiner, which some scripts and many emoji need.
const JOINERS: (char, char) = ('\u{200C}', '\u{200D}');

/// Characters that are shown as a blank and that Unicode does not count as white space: the fillers
/// of Hangul, and Braille without dots.
const BLANKS: [char; 5] = ['\u{115F}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{FFA0}'];

/// Checks a name that programs compare, of a thing that is new: a member's key or an event id.
///
/// # Errors
/// `Invalid` for text with control characters, with characters that are not shown or that change
/// the direction of others, and for blank text.
pub fn check_key(what: &str, text: &str) -> Result<()> {
    let is_bad = |each| is_hidden(each) || is_in(each, JOINERS) || is_hidden_in_keys(each);
    if !is_blank(text) && !text.chars().any(is_bad) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "invalid {what}: expected text that is not blank, without control characters, invisible ones or ones that change its direction"
    )))
}

/// True if a text for people, such as a title or a region, can be shown as it is: it is not blank
/// and has no control characters, invisible ones or ones that change its direction, and at most
/// five combining marks in a row. A joiner (U+200C or U+200D) may stand between two characters
/// beyond ASCII, as in Persian words and many emoji; a variation selector, a filler or a tag where
/// an emoji, a flag or a script is written with it.
pub fn is_presentable(text: &str) -> bool {
    let characters: Vec<char> = text.chars().collect();
    let joins = |at: Option<&char>| {
        at.is_some_and(|&each| !each.is_ascii() && !is_in(each, JOINERS) && !is_space(each))
    };
    let fits = |(index, &each): (usize, &char)| {
        if is_in(each, JOINERS) {
            let before = index.checked_sub(1).and_then(|before| characters.get(before));
            return joins(before) && joins(characters.get(index + 1));
        }
        !is_hidden(each) && (!is_hidden_in_keys(each) || belongs(&characters, index))
    };
    let is_mark = |each: &char| each.general_category_group() == GeneralCategoryGroup::Mark;
    let runs_over = |some: &[char]| some.iter().all(is_mark);
    !is_blank(text)
        && characters.iter().enumerate().all(fits)
        && !characters.windows(MARKS_MAX + 1).any(runs_over)
}

/// True if a variation selector, a filler or a tag stands where it changes how something is shown.
fn belongs(characters: &[char], index: usize) -> bool {
    let before = index.checked_sub(1).map(|before| characters[before]);
    let follows = |ranges: &[(char, char)]| {
        before.is_some_and(|before| ranges.iter().any(|&range| is_in(before, range)))
    };
    let after = characters.get(index + 1).copied();
    match characters[index] {
        // Digits and some signs are emoji in a keycap.
        '\u{FE0E}'..='\u{FE0F}' => before.is_some_and(|before| {
            before.is_emoji_char() && (!before.is_ascii() || after == Some('\u{20E3}'))
        }),
        '\u{FE00}'..='\u{FE02}' | '\u{E0100}'..='\u{E01EF}' => follows(&IDEOGRAPHS),
        '\u{180B}'..='\u{180F}' => follows(&[('\u{1820}', '\u{18AA}')]),
        // The fillers of an old syllable of Hangul that has no consonant or no vowel.
        '\u{115F}' => after.is_some_and(|after| is_in(after, ('\u{1161}', '\u{11A7}'))),
        '\u{1160}' => follows(&[('\u{1100}', '\u{115F}'), ('\u{A960}', '\u{A97C}')]),
        tag if is_in(tag, TAGS) => {
            let tags = characters[..index].iter().rev().take_while(|&&each| is_in(each, TAGS));
            let tags = tags.count();
            let base = index.checked_sub(tags + 1).map(|base| characters[base]);
            tags < FLAG_TAGS_MAX && base == Some('\u{1F3F4}')
        }
        _ => false,
    }
}

/// True for a character that no new name may have, wherever it stands.
fn is_hidden(each: char) -> bool {
    let mut tables = BIDI_CONTROLS.iter().chain(&INVISIBLE);
    each.is_control()
        || is_in(each, SEPARATORS)
        || is_no_character(each)
        || tables.any(|&range| is_in(each, range))
}

/// True for a code point that never is a character (`Noncharacter_Code_Point`).
fn is_no_character(each: char) -> bool {
    is_in(each, ('\u{FDD0}', '\u{FDEF}')) || u32::from(each) & 0xFFFE == 0xFFFE
}

/// True if nothing of the text is shown.
fn is_blank(text: &str) -> bool {
    text.chars().all(|each| is_space(each) || is_hidden_in_keys(each))
}

fn is_hidden_in_keys(each: char) -> bool {
    INVISIBLE_IN_KEYS.iter().any(|&range| is_in(each, range))
}

fn is_space(each: char) -> bool {
    each.is_whitespace() || BLANKS.contains(&each)
}

fn is_in(each: char, (first, last): (char, char)) -> bool {
    (first..=last).contains(&each)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Characters that issue reports named: bidi controls, zero width, separators.
    const REFUSED: &str = "\u{61C}\u{200B}\u{200E}\u{200F}\u{2028}\u{2029}\u{202A}\u{202B}\u{202C}\u{202D}\u{202E}\u{2060}\u{2066}\u{2067}\u{2068}\u{2069}\u{FEFF}\u{AD}\u{7}\u{85}";

    #[test]
    fn a_name_has_no_character_that_hides_or_turns_others() {
        for refused in REFUSED.chars() {
            let text = format!("a{refused}b");
            assert!(check_key("member", &text).is_err(), "{text:?}");
            assert!(!is_presentable(&text), "{text:?}");
        }
    }

    #[test]
    fn a_name_is_not_blank() {
        for blank in ["", " ", "\u{A0}\u{3000}", "\u{3164}", "\u{2800} ", "\u{FE0F}"] {
            assert!(check_key("member", blank).is_err(), "{blank:?}");
            assert!(!is_presentable(blank), "{blank:?}");
        }
    }

    #[test]
    fn words_of_every_script_and_emoji_are_names() {
        for text in
            ["ann", "a b", "Zoë", "ü:%{}\u{1F3C6}", "\u{2764}", "\u{645}\u{62D}\u{645}\u{62F}"]
        {
            assert!(check_key("member", text).is_ok(), "{text}");
            assert!(is_presentable(text), "{text}");
        }
    }

    #[test]
    fn two_keys_never_look_the_same_for_a_character_that_is_not_shown() {
        for hidden in "\u{E0041}\u{FE00}\u{FE0F}\u{E0100}\u{180B}\u{17B4}\u{1D173}\u{FFA0}\u{FFF9}\u{FFFB}\u{FFFF}\u{FDD0}\u{13430}\u{10FFFE}\u{115F}\u{3164}".chars() {
            let text = format!("a{hidden}b");
            assert!(check_key("member", &text).is_err(), "{text:?}");
        }
        // An emoji and a flag in a name have some of them.
        for name in ["\u{2764}\u{FE0F}", "\u{1F3F4}\u{E0067}\u{E0062}\u{E007F}"] {
            assert!(is_presentable(name), "{name}");
            assert!(check_key("member", name).is_err(), "{name}");
        }
        for hidden in "\u{17B4}\u{1D173}\u{FFF9}\u{FFFF}\u{FDD0}".chars() {
            assert!(!is_presentable(&format!("a{hidden}b")), "{hidden:?}");
        }
    }

    #[test]
    fn a_name_has_a_character_that_is_not_shown_only_where_it_changes_another() {
        for name in [
            "1\u{FE0F}\u{20E3}",
            "ann \u{2764}\u{FE0F}",
            "\u{1F3F4}\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}",
            "\u{845B}\u{E0100}\u{57CE}",
            "\u{182A}\u{180B}",
            "\u{115F}\u{1161}",
            "e\u{301}\u{323}",
        ] {
            assert!(is_presentable(name), "{name:?}");
        }
        let hidden = INVISIBLE_IN_KEYS.iter().flat_map(|&(first, last)| first..=last);
        for hidden in hidden.chain(['\u{FE0F}', '\u{E0061}', '\u{1BCA0}']) {
            for name in
                [format!("ann{hidden}"), format!("{hidden}ann"), format!("zo\u{EB}{hidden}")]
            {
                assert!(!is_presentable(&name), "{name:?}");
            }
        }
        let flag = |tags: usize| format!("\u{1F3F4}{}", "\u{E0067}".repeat(tags));
        assert!(is_presentable(&flag(FLAG_TAGS_MAX)) && !is_presentable(&flag(FLAG_TAGS_MAX + 1)));
        let marked = |marks: usize| format!("a{}b", "\u{301}".repeat(marks));
        assert!(is_presentable(&marked(MARKS_MAX)) && !is_presentable(&marked(MARKS_MAX + 1)));
    }

    #[test]
    fn a_joiner_stands_in_a_name_between_characters_that_it_can_join_and_never_in_a_key() {
        // A Persian verb, a Devanagari conjunct, a family, and a heart on fire.
        for joined in [
            "\u{645}\u{6CC}\u{200C}\u{62E}\u{648}\u{627}\u{647}\u{645}",
            "\u{915}\u{94D}\u{200D}\u{937}",
            "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}",
            "\u{2764}\u{FE0F}\u{200D}\u{1F525}",
        ] {
            assert!(is_presentable(joined), "{joined}");
            assert!(check_key("member", joined).is_err(), "{joined}");
        }
        for loose in
            ["a\u{200D}b", "\u{200C}\u{645}", "\u{645}\u{200C}", "\u{645}\u{200C}\u{200D}\u{645}"]
        {
            assert!(!is_presentable(loose), "{loose:?}");
        }
    }
}
