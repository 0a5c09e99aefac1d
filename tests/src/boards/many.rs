//! Many boards, inserted at once.

use std::ops::Range;

use entity::board;
use entity::sql::insert_chunked;
use ranking::board::TieBreak;
use ranking::board::rules::{Rules, RulesInput};
use sea_orm::{DatabaseConnection, IntoActiveModel, NotSet};

/// Inserts boards of sums with the slugs b0, b1 and so on, each changed by `change` first.
pub async fn insert_many(
    db: &DatabaseConnection,
    numbers: Range<usize>,
    change: impl Fn(&mut board::Model),
) {
    let input = RulesInput { tie_break: TieBreak::Member, max: 1000, ..RulesInput::default() };
    let rules = Rules::new(input).unwrap();
    let row = |number: usize| {
        let slug = format!("b{number}");
        let mut row = board::of_rules(&slug, &slug, &rules, "UTC", 0);
        change(&mut row);
        board::ActiveModel { no: NotSet, ..row.into_active_model() }
    };
    insert_chunked::<board::Entity, _>(db, numbers.map(row).collect(), None).await.unwrap();
}
