//! Secrets, and URLs as they may be printed: without the passwords in them.

use std::fmt;

/// The sign in place of what may be a password.
const HIDDEN: &str = "***";

/// A URL that is shown without what may be a password, also if it is no URL: a password with a `/`,
/// `#`, `?` or `@` in it makes most parsers stop in its middle. Every URL of a setting is printed
/// through it. An `@` behind a `?` or `#` may stand in a password of either place, so nothing of
/// that URL is shown but its scheme.
#[derive(Clone, Copy)]
pub struct Redacted<'a>(pub &'a str);

impl fmt::Display for Redacted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((scheme, rest)) = self.0.split_once("://") else {
            return f.write_str(HIDDEN);
        };
        if !scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) {
            return f.write_str(HIDDEN);
        }
        write!(f, "{scheme}://")?;
        // The last @ ends the password, wherever a parser would end it.
        let (login, place) = match rest.rfind('@') {
            Some(at) if rest[..at].contains(['?', '#']) => return f.write_str(HIDDEN),
            Some(at) => (true, &rest[at + 1..]),
            None => (false, rest),
        };
        if login {
            write!(f, "{HIDDEN}@")?;
        }
        // A parameter may be a password, too.
        let end = place.find(['?', '#']).unwrap_or(place.len());
        f.write_str(&place[..end])?;
        match end < place.len() {
            true => write!(f, "?{HIDDEN}"),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for Redacted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A secret that a setting holds. It is never printed.
#[derive(Clone)]
pub struct Secret(String);

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl Secret {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_password() {
        for (url, shown) in [
            ("postgres://u:cret@h:1/x", "postgres://***@h:1/x"),
            ("postgres://u:a/cret@h/x", "postgres://***@h/x"),
            ("postgres://u:a#cret@h/x", "postgres://***"),
            ("postgres://u:a?cret@h/x", "postgres://***"),
            ("postgres://u:a@cret@h/x", "postgres://***@h/x"),
            ("postgres://h/x?user=u&password=cret", "postgres://h/x?***"),
            ("postgres://h/x?password=a@cret", "postgres://***"),
            ("mysql://u:cret@h:1/x?ssl-mode=REQUIRED", "mysql://***@h:1/x?***"),
            ("redis+unix:///run/a.sock?pass=cret", "redis+unix:///run/a.sock?***"),
            ("redis://a:1,b:2?cluster=true", "redis://a:1,b:2?***"),
            ("sqlite:///a/b.sqlite", "sqlite:///a/b.sqlite"),
            ("u:cret@h", "***"),
            ("cret", "***"),
            ("", "***"),
            ("u:cret@h?x=y://z", "***"),
        ] {
            assert_eq!(Redacted(url).to_string(), shown, "{url}");
        }
    }
}
