//! The circles within which webhooks hear of members who were overtaken, and the order of each as
//! the last look found it.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::ExprTrait;
use sea_orm::{ActiveValue::Set, IntoActiveModel, QueryOrder, QuerySelect};
use serde_json::{Value, json};

use crate::error::Result;

/// The most entries of standings that a circle has.
pub const TOP_MAX: u32 = 100;

/// The most members of a group.
pub const GROUP_MAX: usize = 1000;

/// A row of `webhook_circle`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "webhook_circle")]
pub struct Model {
    /// The webhook.
    #[sea_orm(primary_key, auto_increment = false)]
    pub webhook: String,
    /// The board.
    pub board_no: i64,
    /// The name of the window.
    pub window: String,
    /// The segment; empty for everyone.
    pub segment: String,
    /// The number of the first entries; none for a group.
    pub top: Option<i32>,
    /// The keys of a group, as a JSON array.
    pub members: Option<String>,
    /// The number of changes of the row.
    pub version: i64,
    /// The name of the standings of the last look; none before the first one.
    pub standings: Option<String>,
    /// Their entries in the circle, in order, as a JSON array of member, key and rank. A member
    /// that was erased since is null.
    pub places: Option<String>,
}

no_relations!();

/// A circle as an administrator chose it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circle {
    /// The board.
    pub board_no: i64,
    /// The name of the window.
    pub window: String,
    /// The segment; empty for everyone.
    pub segment: String,
    /// The entries that it has.
    pub extent: Extent,
}

/// The entries of standings that a circle has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extent {
    /// The first ones, up to this number.
    Top(u32),
    /// Those of the members with these keys.
    Group(Vec<String>),
}

/// A circle, as far as the choice of those that are due needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sign {
    /// The webhook.
    pub webhook: String,
    /// The board.
    pub board_no: i64,
    /// The number of changes of the row.
    pub version: i64,
}

/// A place of a circle, as a row has it: the member, the number of its rank key, its rank.
pub type StoredPlace = (Option<String>, i64, u64);

impl Circle {
    /// It in the audit log, which names no member.
    pub(super) fn shown(&self) -> Value {
        let (top, members) = match &self.extent {
            Extent::Top(top) => (Some(*top), None),
            Extent::Group(members) => (None, Some(members.len())),
        };
        json!({ "window": self.window, "segment": self.segment, "top": top, "members": members })
    }

    fn row(&self, webhook: &str) -> Model {
        let (top, members) = match &self.extent {
            Extent::Top(top) => (Some(i32::try_from(*top).unwrap_or(i32::MAX)), None),
            Extent::Group(members) => (None, Some(text_of(members))),
        };
        Model {
            webhook: webhook.to_owned(),
            board_no: self.board_no,
            window: self.window.clone(),
            segment: self.segment.clone(),
            top,
            members,
            version: 0,
            standings: None,
            places: None,
        }
    }
}

impl Model {
    /// The circle that it describes.
    pub fn circle(&self) -> Result<Circle> {
        let extent = match (self.top, &self.members) {
            (Some(top), _) => Extent::Top(u32::try_from(top).unwrap_or(0)),
            (None, members) => Extent::Group(parse(members.as_deref().unwrap_or("[]"))?),
        };
        Ok(Circle {
            board_no: self.board_no,
            window: self.window.clone(),
            segment: self.segment.clone(),
            extent,
        })
    }

    /// The places of the last look, if it was one at these standings.
    pub fn places_of(&self, standings: &str) -> Result<Option<Vec<StoredPlace>>> {
        let is_of = self.standings.as_deref() == Some(standings);
        self.places.as_deref().filter(|_| is_of).map(parse).transpose()
    }
}

fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    let corrupt = |error| ranking::Error::Corrupt(format!("a row of webhook_circle: {error}"));
    Ok(serde_json::from_str(text).map_err(corrupt)?)
}

fn text_of(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("texts and numbers have a JSON form")
}

/// The circle of a webhook.
pub async fn of(db: &impl ConnectionTrait, webhook: &str) -> Result<Option<Circle>> {
    find(db, webhook).await?.map(|row| row.circle()).transpose()
}

/// The row of a webhook.
pub async fn find(db: &impl ConnectionTrait, webhook: &str) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(webhook).one(db).await
}

/// All circles, without what makes them long.
pub async fn signs(db: &impl ConnectionTrait) -> Result<Vec<Sign>, DbErr> {
    let rows: Vec<(String, i64, i64)> = Entity::find()
        .select_only()
        .columns([Column::Webhook, Column::BoardNo, Column::Version])
        .order_by_asc(Column::Webhook)
        .into_tuple()
        .all(db)
        .await?;
    let sign = |(webhook, board_no, version)| Sign { webhook, board_no, version };
    Ok(rows.into_iter().map(sign).collect())
}

/// Gives a webhook a circle, or none. One that is another than before begins now. Part of a
/// transaction.
pub(super) async fn set(
    db: &impl ConnectionTrait,
    webhook: &str,
    circle: Option<&Circle>,
) -> Result<()> {
    let row = find(db, webhook).await?;
    let Some(circle) = circle else {
        Entity::delete_by_id(webhook).exec(db).await?;
        return Ok(());
    };
    match row {
        Some(row) if row.circle()? == *circle => {}
        Some(row) => {
            let changed = Model { version: row.version + 1, ..circle.row(webhook) };
            let changed = changed.into_active_model().reset_all();
            Entity::update(changed).exec_without_returning(db).await?;
        }
        None => {
            let row = circle.row(webhook).into_active_model();
            Entity::insert(row).exec_without_returning(db).await?;
        }
    }
    Ok(())
}

/// Replaces the places of a circle. Part of the transaction that tells of those who were overtaken.
/// Returns false if the row is another one by now.
pub async fn settle(
    db: &impl ConnectionTrait,
    row: &Model,
    standings: &str,
    places: &[StoredPlace],
) -> Result<bool, DbErr> {
    let settled = ActiveModel {
        version: Set(row.version + 1),
        standings: Set(Some(standings.to_owned())),
        places: Set(Some(text_of(&places))),
        ..Default::default()
    };
    let same = Entity::update_many().set(settled).filter(Column::Webhook.eq(&row.webhook));
    let done = same.filter(Column::Version.eq(row.version)).exec(db).await?;
    Ok(done.rows_affected == 1)
}

/// Takes a member from all circles. A look that is under way writes nothing of what it read. Part
/// of a transaction. Returns the number of circles that had the member.
pub async fn erase(db: &impl ConnectionTrait, member: &str) -> Result<u64> {
    // First the rows are locked against a look that is under way.
    Entity::update_many()
        .col_expr(Column::Version, Expr::col(Column::Version).add(1))
        .exec(db)
        .await?;
    let mut had = 0;
    for row in Entity::find().all(db).await? {
        let mut members: Option<Vec<String>> = row.members.as_deref().map(parse).transpose()?;
        let mut places: Option<Vec<StoredPlace>> = row.places.as_deref().map(parse).transpose()?;
        let is_of = |key: &Option<String>| key.as_deref() == Some(member);
        let in_places = places.iter().flatten().any(|(key, ..)| is_of(key));
        let in_group = members.iter().flatten().any(|key| key == member);
        if !in_places && !in_group {
            continue;
        }
        had += 1;
        members.iter_mut().for_each(|members| members.retain(|key| key != member));
        let named = places.iter_mut().flatten().filter(|(key, ..)| is_of(key));
        named.for_each(|(key, ..)| *key = None);
        let changed = ActiveModel {
            webhook: Set(row.webhook),
            members: Set(members.as_ref().map(text_of)),
            places: Set(places.as_ref().map(text_of)),
            ..Default::default()
        };
        Entity::update(changed).exec_without_returning(db).await?;
    }
    Ok(had)
}

/// Deletes the circles of a board that is gone.
pub async fn delete_of(db: &impl ConnectionTrait, board_no: i64) -> Result<(), DbErr> {
    Entity::delete_many().filter(Column::BoardNo.eq(board_no)).exec(db).await.map(drop)
}
