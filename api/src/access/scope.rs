//! Scopes, by which an access token allows what a client does.

use async_graphql::Enum;

/// A scope of an access token. Each includes READ, and ADMIN includes all.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Scope {
    /// Reads, also where the server wants a token for reads.
    Read,
    /// Submits scores, joins and leaves boards.
    Submit,
    /// Makes and ends friendships.
    Friends,
    /// Removes entries and voids events.
    Moderate,
    /// Everything.
    Admin,
}

/// A set of scopes, each with those that it includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scopes(u8);

impl Scope {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Read, Self::Submit, Self::Friends, Self::Moderate, Self::Admin];

    /// The name, on the command line, in SQL and in the tokens of players.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Submit => "submit",
            Self::Friends => "friends",
            Self::Moderate => "moderate",
            Self::Admin => "admin",
        }
    }

    /// The scope of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl Scopes {
    /// These scopes, and those that they include.
    pub fn of(scopes: impl IntoIterator<Item = Scope>) -> Self {
        let bits = scopes.into_iter().fold(Scope::Read.bit(), |bits, scope| bits | scope.bit());
        let is_admin = bits & Scope::Admin.bit() != 0;
        Self(if is_admin {
            Scope::ALL.into_iter().fold(bits, |bits, s| bits | s.bit())
        } else {
            bits
        })
    }

    /// The scopes of words between spaces; other words grant nothing.
    pub fn parse(words: &str) -> Self {
        Self::of(words.split(' ').filter_map(Scope::of_name))
    }

    /// True if a scope is among them.
    pub fn include(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// All of them, also those that others include.
    pub fn list(self) -> Vec<Scope> {
        Scope::ALL.into_iter().filter(|scope| self.include(*scope)).collect()
    }

    /// The words that [`Self::parse`] reads, without scopes that others include.
    pub fn words(self) -> String {
        let included = if self.include(Scope::Admin) { 4 } else { 1 };
        let names: Vec<&str> = self.list().into_iter().skip(included).map(Scope::name).collect();
        if names.is_empty() { Scope::Read.name().to_owned() } else { names.join(" ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_scopes_is_written_and_read() {
        for bits in 0..32_u8 {
            let given = Scope::ALL.into_iter().filter(|scope| bits & scope.bit() != 0);
            let scopes = Scopes::of(given.clone());
            assert!(given.clone().all(|scope| scopes.include(scope)), "{bits}");
            assert!(scopes.include(Scope::Read));
            assert_eq!(Scopes::parse(&scopes.words()), scopes);
            let is_admin = given.clone().any(|scope| scope == Scope::Admin);
            assert_eq!(scopes.list().len() == 5, is_admin, "{bits}");
        }
        assert_eq!(Scopes::of([Scope::Admin]).words(), "admin");
        assert_eq!(Scopes::of([Scope::Friends, Scope::Submit]).words(), "submit friends");
        assert_eq!(Scopes::parse("openid write").words(), "read");
    }
}
