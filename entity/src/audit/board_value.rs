//! A board as the audit log shows it.

use sea_orm::ActiveEnum;
use serde_json::{Value, json};

use crate::board::{Model, WindowState};

/// The fields of a board that its creator sets, by their names in GraphQL; instants in Unix
/// milliseconds.
pub fn board_value(row: &Model) -> Value {
    let decimals = row.decimals.try_into().unwrap_or_default();
    let score = |raw| ranking::score::format(raw, decimals);
    let parsed = |json: &str| serde_json::from_str::<Value>(json).unwrap_or_default();
    let excess = if row.excess_refused { "REFUSE" } else { "QUARANTINE" };
    json!({
        "slug": row.slug,
        "title": row.title,
        "display": row.display.as_deref().map(parsed),
        "direction": row.direction.to_value(),
        "policy": row.policy.to_value(),
        "tieBreak": row.tie_break.to_value(),
        "tieBreakResolutionMs": row.tick_ms,
        "decimals": row.decimals,
        "minScore": score(row.min_score),
        "maxScore": score(row.max_score),
        "timeZone": row.time_zone,
        "resetHour": row.reset_hour,
        "weekStart": row.week_start,
        "shards": row.shards,
        "segmentBy": parsed(&row.segment_by),
        "visibility": row.visibility.to_value(),
        "selfSubmit": row.self_submit,
        "metadata": row.metadata,
        "joining": row.joining,
        "entrantsMax": row.entrants_max,
        "windows": windows(row),
        "seasons": seasons(row),
        "fairPlay": {
            "perMinuteMax": row.per_minute_max,
            "deltaMax": row.delta_max.map(score),
            "excess": excess,
        },
        "opensAt": row.opens_at_ms,
        "closesAt": row.closes_at_ms,
        "maxLatenessMs": row.lateness_max_ms,
    })
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
