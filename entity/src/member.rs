//! Members: everyone who was ranked or named.

pub mod ban;
pub mod erasure;
pub mod friend_request;
pub mod friendship;
pub mod hidden;
pub mod merge;
pub mod quarantine;
pub mod report;
pub mod search;
pub mod visibility;

use std::collections::BTreeMap;

use ranking::attribute::{Attributes, REGION};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveValue::Set, QueryOrder, QuerySelect};

use self::visibility::Visibility;
use crate::audit::Act;
use crate::sql::begin;

/// A row of `member`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "member")]
pub struct Model {
    /// The id, chosen by the game.
    #[sea_orm(primary_key, auto_increment = false)]
    pub key: String,
    /// The display name; the key stands in until there is one.
    pub name: Option<String>,
    /// The name in lower case, for searches by prefix.
    pub name_folded: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// Creation time, in Unix milliseconds.
    pub created_at_ms: i64,
    /// The address of a picture.
    pub avatar_url: Option<String>,
    /// The attributes besides the region, as a JSON object of texts.
    pub attributes: Option<String>,
}

no_relations!();

impl Model {
    /// The attributes, the region among them.
    pub fn attributes(&self) -> Attributes {
        attributes_of(self.region.clone(), self.attributes.as_deref())
    }

    /// The attributes besides the region.
    pub fn other_attributes(&self) -> Attributes {
        let mut attributes = self.attributes();
        attributes.remove(REGION);
        attributes
    }
}

/// A row's attributes, the region among them. A text that was edited so that it cannot be read has
/// none, which the log tells.
fn attributes_of(region: Option<String>, others: Option<&str>) -> Attributes {
    let others = others.map(serde_json::from_str::<Attributes>).transpose();
    let others = others.unwrap_or_else(|error| {
        tracing::error!(%error, "the attributes of a member cannot be read; set them again");
        None
    });
    let mut attributes = others.unwrap_or_default();
    attributes.extend(region.map(|region| (REGION.to_owned(), region)));
    attributes
}

/// Folds a name for searches: to lower case, character by character. So a prefix of a name folds to
/// a prefix of the folded name.
pub fn fold_name(name: &str) -> String {
    name.chars().flat_map(char::to_lowercase).collect()
}

/// A write to a member's row: what to set; `None` leaves it as it is.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// The member.
    pub key: String,
    /// The display name; an inner `None` removes it.
    pub name: Option<Option<String>>,
    /// The region; an inner `None` removes it.
    pub region: Option<Option<String>>,
    /// The address of a picture; an inner `None` removes it.
    pub avatar_url: Option<Option<String>>,
    /// The attributes besides the region, in place of all that there are.
    pub attributes: Option<Attributes>,
    /// The visibility to others, which only [`upsert`] sets.
    pub visibility: Option<Visibility>,
}

/// The row of a member.
pub async fn find(db: &impl ConnectionTrait, key: &str) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(key).one(db).await
}

/// Locks the rows of members, in the order of their keys, until a transaction ends. Those who are
/// unknown have none.
pub(crate) async fn lock(db: &impl ConnectionTrait, keys: [&str; 2]) -> Result<(), DbErr> {
    let rows = Entity::find()
        .select_only()
        .column(Column::Key)
        .filter(Column::Key.is_in(keys))
        .order_by_asc(Column::Key)
        .lock_exclusive();
    rows.into_tuple::<String>().all(db).await.map(drop)
}

/// The rows of some members; those that have none are absent.
pub async fn of_keys(db: &impl ConnectionTrait, keys: &[String]) -> Result<Vec<Model>, DbErr> {
    Entity::find().filter(Column::Key.is_in(keys)).all(db).await
}

/// The keys and attributes of some members, the region among them; those that have no row are
/// absent.
pub async fn attributes(
    db: &impl ConnectionTrait,
    keys: &[&str],
) -> Result<Vec<(String, Attributes)>, DbErr> {
    let rows: Vec<(String, Option<String>, Option<String>)> = Entity::find()
        .select_only()
        .columns([Column::Key, Column::Region, Column::Attributes])
        .filter(Column::Key.is_in(keys.iter().copied()))
        .into_tuple()
        .all(db)
        .await?;
    let rows = rows.into_iter();
    Ok(rows.map(|(key, region, others)| (key, attributes_of(region, others.as_deref()))).collect())
}

/// Inserts the row of a member that has none.
pub async fn insert_missing(
    db: &impl ConnectionTrait,
    key: &str,
    now_ms: i64,
) -> Result<(), DbErr> {
    write(db, Change { key: key.to_owned(), ..Change::default() }, now_ms).await
}

/// Inserts members or changes them, all or none, with the row of the audit log. Returns their rows,
/// in the order of the changes, and the changes of their visibility.
///
/// # Errors
/// `LimitExceeded` if too many members would not be public; if SQL does not answer.
pub async fn upsert(
    db: &DatabaseConnection,
    changes: Vec<Change>,
    now_ms: i64,
    act: &Act,
) -> crate::Result<(Vec<Model>, Vec<visibility::Model>)> {
    let keys: Vec<String> = changes.iter().map(|change| change.key.clone()).collect();
    let visible =
        changes.iter().filter_map(|change| Some((change.key.clone(), change.visibility?)));
    let visible: BTreeMap<String, Visibility> = visible.collect();
    let transaction = begin(db).await?;
    for change in changes {
        write(&transaction, change, now_ms).await?;
    }
    let set = visibility::set(&transaction, &visible).await?;
    let mut rows = vec![];
    for key in keys {
        rows.extend(Entity::find_by_id(key).one(&transaction).await?);
    }
    act.write(&transaction).await?;
    transaction.commit().await?;
    Ok((rows, set))
}

/// Inserts a member or changes it.
pub async fn write(db: &impl ConnectionTrait, change: Change, now_ms: i64) -> Result<(), DbErr> {
    let Change { key, name, region, avatar_url, attributes, visibility: _ } = change;
    let mut changed = vec![];
    if name.is_some() {
        changed.extend([Column::Name, Column::NameFolded]);
    }
    if region.is_some() {
        changed.push(Column::Region);
    }
    if avatar_url.is_some() {
        changed.push(Column::AvatarUrl);
    }
    if attributes.is_some() {
        changed.push(Column::Attributes);
    }
    let name = name.flatten();
    let attributes = attributes.filter(|attributes| !attributes.is_empty());
    let row = ActiveModel {
        key: Set(key),
        name_folded: Set(name.as_deref().map(fold_name)),
        name: Set(name),
        region: Set(region.flatten()),
        created_at_ms: Set(now_ms),
        avatar_url: Set(avatar_url.flatten()),
        attributes: Set(attributes
            .map(|attributes| serde_json::to_string(&attributes).expect("texts have a JSON form"))),
    };
    let mut on_conflict = OnConflict::column(Column::Key);
    if changed.is_empty() {
        on_conflict.do_nothing_on([Column::Key]);
    } else {
        on_conflict.update_columns(changed);
    }
    Entity::insert(row).on_conflict(on_conflict).exec_without_returning(db).await?;
    Ok(())
}
