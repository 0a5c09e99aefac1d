//! The access token: in a setting for good, or in a file that is read again when it is refused.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use engine::settings::IngestSettings;

/// The longest file of a token, in bytes.
const TOKEN_BYTES_MAX: u64 = 16 << 10;

/// The token, if there is one.
pub(super) struct Token {
    file: Option<PathBuf>,
    text: Mutex<Option<String>>,
}

impl Token {
    /// The token that the settings name.
    ///
    /// # Errors
    /// If its file cannot be read.
    pub(super) fn new(settings: &IngestSettings) -> Result<Self> {
        let given = settings.token.as_ref().map(|token| token.as_str().to_owned());
        let text = match &settings.token_file {
            Some(file) => Some(read(file)?),
            None => given,
        };
        Ok(Self { file: settings.token_file.clone(), text: Mutex::new(text) })
    }

    /// The token as it is now.
    pub(super) fn text(&self) -> Option<String> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the file again after the server has refused a token. Of several requests that were
    /// refused with the same one, the first reads it for all.
    ///
    /// # Errors
    /// If the file has the refused token, or there is no file.
    pub(super) fn renew(&self, refused: Option<&str>) -> Result<()> {
        let mut known = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_deref() != refused {
            return Ok(());
        }
        let told = "the server refuses the access token";
        let Some(file) = &self.file else { bail!(told) };
        let text = read(file)?;
        if refused == Some(&*text) {
            bail!("{told} in {}", file.display());
        }
        *known = Some(text);
        Ok(())
    }
}

fn read(file: &Path) -> Result<String> {
    let cannot = || format!("the access token in {} cannot be read", file.display());
    let size = std::fs::metadata(file).with_context(cannot)?.len();
    if size > TOKEN_BYTES_MAX {
        bail!("{}: it has {size} bytes, expected at most {TOKEN_BYTES_MAX}", cannot());
    }
    let text = std::fs::read_to_string(file).with_context(cannot)?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_were_refused_together_share_the_token_that_is_read_for_them() {
        let file = std::env::temp_dir().join(format!("laurel-token-{}", std::process::id()));
        let write = |text: &str| std::fs::write(&file, text).unwrap();
        write("old\n");
        let token = Token { file: Some(file.clone()), text: Mutex::new(Some("old".to_owned())) };
        let refused = token.renew(Some("old")).unwrap_err().to_string();
        assert!(refused.contains("laurel-token-"), "{refused}");
        write("new\n");
        for _ in 0..4 {
            token.renew(Some("old")).unwrap();
            assert_eq!(token.text().as_deref(), Some("new"));
        }
        token.renew(Some("new")).unwrap_err();
        write("newer");
        token.renew(Some("new")).unwrap();
        std::fs::remove_file(&file).unwrap();
        let given = Token { file: None, text: Mutex::new(Some("given".to_owned())) };
        given.renew(Some("given")).unwrap_err();
    }
}
