//! Windows that count the attempts in the periods of other ones.

use super::Window;

/// The window whose attempts are counted: its place in [`Window::EVERY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attempts(u8);

impl Window {
    /// The window that counts the attempts of this one; `None` if that cannot be limited.
    pub fn attempts(self) -> Option<Self> {
        let place = Self::EVERY.into_iter().position(|window| window == self)?;
        Some(Self::Attempts(Attempts(u8::try_from(place).ok()?)))
    }

    /// The window whose attempts this one counts; `None` for another kind.
    pub fn counted(self) -> Option<Self> {
        if let Self::Attempts(Attempts(place)) = self {
            Self::EVERY.get(usize::from(place)).copied()
        } else {
            None
        }
    }

    /// True if its periods are the seasons of the board.
    pub fn has_seasons(self) -> bool {
        self.of_periods() == Self::Season
    }

    /// The window that has the same periods and is none of attempts.
    pub fn of_periods(self) -> Self {
        self.counted().unwrap_or(self)
    }
}
