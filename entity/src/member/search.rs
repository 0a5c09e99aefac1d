//! The search for members by a prefix of their key or name.

use sea_orm::entity::prelude::*;
use sea_orm::{Condition, QueryOrder, QuerySelect};

use super::hidden::Viewer;
use super::{Column, Entity, Model, fold_name};

/// The most members that a page of a search looks at for a client that does not see all of them.
pub const LOOKED_AT_MAX: usize = 2_000;

/// The most members by key, and by name, that are counted to learn what a total costs.
pub const COUNTED_MAX: u64 = 100_000;

/// The prefix of a search, as it is for keys, and in lower case for names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    key: String,
    name: String,
    /// The client, if there are members that it does not see.
    viewer: Option<Viewer>,
}

impl Prefix {
    /// The prefix that a client typed, if there may be members that it does not see.
    pub fn new(text: &str, viewer: Option<Viewer>) -> Self {
        Self { key: text.to_owned(), name: fold_name(text), viewer }
    }

    /// At most `limit` members whose key begins with the prefix, by key, after a key; also those
    /// that the client does not see.
    pub async fn by_key(
        &self,
        db: &impl ConnectionTrait,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Model>, DbErr> {
        let mut by_key = Entity::find().filter(self.of_key());
        if let Some(key) = after {
            by_key = by_key.filter(Column::Key.gt(key));
        }
        by_key.order_by_asc(Column::Key).limit(limit as u64).all(db).await
    }

    /// At most `limit` members whose name begins with the prefix, by name in lower case and key,
    /// after such a name and key; also those that [`Self::by_key`] finds, as SQL would pass over
    /// any number of them, and those that the client does not see.
    pub async fn by_name(
        &self,
        db: &impl ConnectionTrait,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<Model>, DbErr> {
        let mut by_name = Entity::find().filter(starts_with(Column::NameFolded, &self.name));
        if let Some((name, key)) = after {
            let same_name =
                Condition::all().add(Column::NameFolded.eq(name)).add(Column::Key.gt(key));
            let later = Condition::any().add(Column::NameFolded.gt(name)).add(same_name);
            by_name = by_name.filter(later);
        }
        by_name
            .order_by_asc(Column::NameFolded)
            .order_by_asc(Column::Key)
            .limit(limit as u64)
            .all(db)
            .await
    }

    /// True if [`Self::by_key`] finds the member of a key.
    pub fn finds_key(&self, key: &str) -> bool {
        key.starts_with(&self.key)
    }

    /// The client, if there are members that it does not see.
    pub fn viewer(&self) -> Option<&Viewer> {
        self.viewer.as_ref()
    }

    /// The number of members whose key or name begins with the prefix, and whom the client sees.
    pub async fn count(&self, db: &impl ConnectionTrait) -> Result<u64, DbErr> {
        let hidden = self.viewer.as_ref().map(|viewer| viewer.hidden().not());
        let seen = Entity::find().filter(Condition::all().add_option(hidden));
        let by_key = seen.clone().filter(self.of_key()).count(db).await?;
        Ok(by_key + seen.filter(self.of_name_only()).count(db).await?)
    }

    /// The number of members that [`Self::count`] looks at: by key and by name, at most
    /// [`COUNTED_MAX`] each.
    pub async fn count_looked_at(&self, db: &impl ConnectionTrait) -> Result<u64, DbErr> {
        let first = |found| Entity::find().filter(found).limit(COUNTED_MAX);
        let by_key = first(self.of_key()).count(db).await?;
        Ok(by_key + first(self.of_name_only()).count(db).await?)
    }

    fn of_key(&self) -> Condition {
        starts_with(Column::Key, &self.key)
    }

    fn of_name_only(&self) -> Condition {
        starts_with(Column::NameFolded, &self.name).add(self.of_key().not())
    }
}

/// The condition that a text begins with a prefix, as a range, which an index can answer, as text
/// is compared by bytes.
pub(crate) fn starts_with(column: impl ColumnTrait, prefix: &str) -> Condition {
    let range = Condition::all().add(column.gte(prefix));
    match end_of(prefix) {
        Some(end) => range.add(column.lt(end)),
        None => range,
    }
}

/// The first text after all that begin with a prefix; `None` if there is none.
fn end_of(prefix: &str) -> Option<String> {
    let mut end: Vec<char> = prefix.chars().collect();
    while let Some(last) = end.pop() {
        let next = match last {
            '\u{D7FF}' => Some('\u{E000}'),
            last => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            end.push(next);
            return Some(end.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::end_of;

    proptest! {
        #[test]
        fn a_range_holds_the_texts_that_begin_with_the_prefix(prefix in "\\PC{1,3}|[\u{D7FE}\u{D7FF}\u{10FFFE}\u{10FFFF}]{1,3}", text in "\\PC{0,5}|[\u{D7FE}\u{D7FF}\u{10FFFE}\u{10FFFF}]{0,4}", with: bool) {
            let text = if with { format!("{prefix}{text}") } else { text };
            let in_range = text >= prefix && end_of(&prefix).is_none_or(|end| text < end);
            prop_assert_eq!(in_range, text.starts_with(&prefix));
        }
    }
}
