//! A board with windows of every kind and standings by region.

use ranking::window::Window;
use serde_json::{Value, json};

use crate::api::Api;
use crate::model::oracle::Board;

/// How many members the busy board has.
pub const MEMBERS: usize = 150;

/// A board with windows of every kind and standings by region.
pub fn busy_board() -> Board {
    Board {
        slug: "busy".to_owned(),
        max: 999_999_999,
        zone: "Europe/London",
        windows: vec![Window::Daily, Window::Weekly],
        ..Board::default()
    }
}

/// Creates it, with rolling and decaying windows and regions that only the diff checks.
pub async fn create_busy(api: &Api, board: &Board) {
    let mut input = board.input();
    let more = ["7d", "decay:7d"].map(|name| json!({ "name": name }));
    input["windows"].as_array_mut().unwrap().extend(more);
    input["segmentBy"] = json!(["region"]);
    api.create_board(input).await;
    let member = |number: usize| {
        json!({
            "key": format!("m{number}"), "region": if number.is_multiple_of(3) { "eu" } else { "us" },
        })
    };
    let members: Vec<Value> = (0..MEMBERS).map(member).collect();
    api.upsert_members(members).await;
}
