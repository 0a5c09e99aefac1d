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

    /// Reads the file again after the server has refused the token.
    ///
    /// # Errors
    /// If it has the same token, or there is no file.
    pub(super) fn renew(&self) -> Result<()> {
        let refused = "the server refuses the access token";
        let Some(file) = &self.file else { bail!(refused) };
        let text = Some(read(file)?);
        let mut known = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        if *known == text {
            bail!("{refused} in {}", file.display());
        }
        *known = text;
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
