//! The standings of an hour as the API has them, in the form of an event.

use serde_json::{Value, json};

use tests::api::Api;
use tests::wait::until;

const STANDINGS: &str = "
    query($period: String!) { board(slug: \"b\") {
        standings(of: { window: \"hourly\", period: $period }) {
            size source top(first: 100) { nodes {
                member { key } score rank competitionRank: rank(method: COMPETITION)
            } }
        }
    } }";

/// The standings of a period.
pub(super) struct Standings {
    pub(super) winners: Value,
    pub(super) size: Value,
    is_sealed: bool,
}

/// The standings of a period of the board `b`.
pub(super) async fn standings(api: &Api, period: &Value) -> Standings {
    let mut data = api.data(STANDINGS, json!({ "period": period })).await;
    let standings = data["board"]["standings"].take();
    let winner = |node: &Value| {
        json!({
            "member": node["member"]["key"], "score": node["score"], "ordinalRank": node["rank"],
            "competitionRank": node["competitionRank"],
        })
    };
    Standings {
        winners: standings["top"]["nodes"].as_array().unwrap().iter().map(winner).collect(),
        size: standings["size"].clone(),
        is_sealed: standings["source"] == "ARCHIVE",
    }
}

/// The standings of a period once it is sealed.
pub(super) async fn sealed(api: &Api, period: &Value) -> Standings {
    until("the period is sealed", async || {
        let standings = standings(api, period).await;
        standings.is_sealed.then_some(standings)
    })
    .await
}
