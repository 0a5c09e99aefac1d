//! The attempts that members have used and left, through GraphQL.

use std::fmt::Write;

use ranking::window::Window;
use serde_json::{Value, json};

use crate::api::Api;
use crate::model::oracle::Oracle;
use crate::wait::until;

/// Members' attempts in a period of a board's window: used and left, or null without a limit.
pub async fn attempts(
    api: &Api,
    board: &str,
    window: &str,
    period: Option<&str>,
    members: &[&str],
) -> Value {
    let mut fields = String::new();
    for (number, member) in members.iter().enumerate() {
        let member = json!(member);
        write!(fields, "m{number}: attempts(member: {member}) {{ used left }} ").unwrap();
    }
    let text = format!(
        "query($of: StandingsOf!) {{ board(slug: \"{board}\") {{ standings(of: $of) {{ {fields} }} }} }}"
    );
    let of = json!({ "window": window, "period": period });
    let mut told = api.data(&text, json!({ "of": of })).await["board"]["standings"].take();
    let each = (0..members.len()).map(|number| {
        let one = told[format!("m{number}")].take();
        if one.is_null() { one } else { json!([one["used"], one["left"]]) }
    });
    each.collect()
}

/// Compares the attempts of every member in every period of the windows that limit them with the
/// oracle. An answer may be a moment old, so each is waited for.
pub async fn check_attempts(api: &Api, oracle: &Oracle) {
    let board = &oracle.board;
    for ((window, period), used) in oracle.attempts() {
        let max = board.attempts[&window];
        let mut members: Vec<&str> = used.keys().copied().collect();
        members.push("nobody");
        let each = members.iter().map(|member| used.get(member).copied().unwrap_or(0));
        let expected: Value = each.map(|used| json!([used, (max - used).max(0)])).collect();
        let name = window.to_string();
        let period = (window != Window::All).then_some(period);
        until(&format!("the attempts in {period:?} of {name} are {expected}"), async || {
            let told = attempts(api, &board.slug, &name, period.as_deref(), &members).await;
            (told == expected).then_some(())
        })
        .await;
    }
}
