//! A board as the audit log shows it.

use sea_orm::ActiveEnum;
use serde_json::{Map, Value, json};

use crate::board::{Model, WindowState};

/// The fields of a board that its creator sets, by their names in GraphQL; instants in Unix
/// milliseconds.
pub fn board_value(row: &Model) -> Value {
    let decimals: u8 = row.decimals.try_into().unwrap_or_default();
    let score = |raw| ranking::score::format(raw, decimals);
    let parsed = |json: &str| serde_json::from_str::<Value>(json).unwrap_or_default();
    let excess = if row.excess_refused { "REFUSE" } else { "QUARANTINE" };
    let fields = [
        ("slug", json!(row.slug)),
        ("title", json!(row.title)),
        ("display", json!(row.display.as_deref().map(parsed))),
        ("direction", json!(row.direction.to_value())),
        ("policy", json!(row.policy.to_value())),
        ("tieBreak", json!(row.tie_break.to_value())),
        ("tieBreakResolutionMs", json!(row.tick_ms)),
        ("decimals", json!(row.decimals)),
        ("minScore", json!(score(row.min_score))),
        ("maxScore", json!(score(row.max_score))),
        ("timeZone", json!(row.time_zone)),
        ("resetHour", json!(row.reset_hour)),
        ("weekStart", json!(row.week_start)),
        ("shards", json!(row.shards)),
        ("segmentBy", parsed(&row.segment_by)),
        ("visibility", json!(row.visibility.to_value())),
        ("selfSubmit", json!(row.self_submit)),
        ("metadata", json!(row.metadata)),
        ("joining", json!(row.joining)),
        ("entrantsMax", json!(row.entrants_max)),
        ("windows", windows(row)),
        ("seasons", seasons(row)),
        ("perMinuteMax", json!(row.per_minute_max)),
        ("deltaMax", json!(row.delta_max.map(score))),
        ("excess", json!(excess)),
        ("opensAt", json!(row.opens_at_ms)),
        ("closesAt", json!(row.closes_at_ms)),
        ("maxLatenessMs", json!(row.lateness_max_ms)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
}

/// The windows without those that are going.
fn windows(row: &Model) -> Value {
    let windows = row.window_rows().unwrap_or_default();
    let living = windows.iter().filter(|window| window.state != WindowState::Dropped);
    let window = |window: &crate::board::WindowRow| {
        json!({
            "name": window.name, "retain": window.retain, "attemptsMax": window.attempts_max,
        })
    };
    living.map(window).collect()
}

/// The seasons without those that are going.
fn seasons(row: &Model) -> Value {
    let windows = row.window_rows().unwrap_or_default();
    let seasons = windows.iter().flat_map(|window| &window.seasons);
    let living = seasons.filter(|season| season.state != WindowState::Dropped);
    let season = |season: &crate::board::SeasonRow| json!({ "name": season.name, "startsAt": season.start_ms, "endsAt": season.end_ms });
    living.map(season).collect()
}
