//! The demo: the server's answers about real events equal a plain computation from the file.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::diff::check_diff;
use tests::model::demo::{Row, rows};

/// Members with total and time of their last commit, in rank order.
fn ranking(rows: &[Row], counts: impl Fn(&Row) -> bool) -> Vec<(String, i64, i64)> {
    let mut totals: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for row in rows.iter().filter(|row| counts(row)) {
        let total = totals.entry(&row.1).or_default();
        *total = (total.0 + row.3, total.1.max(row.2));
    }
    let mut ranking: Vec<_> =
        totals.into_iter().map(|(member, (lines, at))| (member.to_owned(), lines, at)).collect();
    ranking
        .sort_by(|a, b| b.1.cmp(&a.1).then(a.2.cmp(&b.2)).then(a.0.as_bytes().cmp(b.0.as_bytes())));
    ranking
}

fn listed(ranking: &[(String, i64, i64)]) -> Value {
    let entry = |(member, lines, at): &(String, i64, i64)| {
        let at = jiff::Timestamp::from_second(*at).unwrap();
        json!({
            "member": { "key": member }, "score": lines.to_string(),
            "reachedAt": format!("{at:.3}"),
        })
    };
    ranking.iter().map(entry).collect()
}

fn month(at: i64) -> String {
    jiff::Timestamp::from_second(at).unwrap().strftime("%Y-%m").to_string()
}

#[tokio::test]
async fn the_demo_is_what_its_file_adds_up_to() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let printed = deployment.api_output(&["demo"]).await;
    let mut rows = rows();
    let newest = rows.iter().map(|row| row.2).max().unwrap();
    let recent = rows.iter().filter(|row| row.2 >= newest - 60 * 86_400).count();
    let loaded = format!("loaded {} events", 2 * rows.len() + recent);
    assert!(printed.contains(&loaded), "{printed}");
    assert!(deployment.api_output(&["demo"]).await.contains("are there"));
    // The newest event lies at the instant at which the demo was made.
    let born_ms = "SELECT created_at_ms FROM board WHERE slug = 'largest-commit'";
    let moved = deployment.number(born_ms).await / 1000 - newest;
    assert!(printed.contains(&format!("moved by {} days", moved / 86_400)), "{printed}");
    rows.iter_mut().for_each(|row| row.2 += moved);
    let api = Api::start(&deployment).await;

    let all = ranking(&rows, |row| row.0 == "rust-analyzer");
    let query = "
        query($m: String!) { board(slug: \"rust-analyzer\") { standings {
            size top(first: 10) { nodes { ...e } } last: top(last: 10) { nodes { ...e } }
            entry(member: $m) { rank } neighbors(member: $m, above: 4, below: 3) { ...e }
        } } }
        fragment e on Entry { score reachedAt member { key } }";
    for place in [0, 2, 700, all.len() - 1] {
        let data = api.data(query, json!({ "m": all[place].0 })).await;
        let standings = &data["board"]["standings"];
        assert_eq!(standings["size"], all.len());
        assert_eq!(standings["top"]["nodes"], listed(&all[..10]));
        assert_eq!(standings["last"]["nodes"], listed(&all[all.len() - 10..]));
        assert_eq!(standings["entry"]["rank"], place + 1);
        let around = &all[place.saturating_sub(4)..(place + 4).min(all.len())];
        assert_eq!(standings["neighbors"], listed(around));
    }
    for board in ["redis", "rails", "ripgrep", "nextest"] {
        let months: Vec<String> =
            rows.iter().filter(|row| row.0 == board).map(|row| month(row.2)).collect();
        let periods = [&months[0], &months[months.len() / 2], &months[months.len() - 1], "2008-01"];
        for period in periods {
            check_month(&api, &rows, board, period).await;
        }
    }
    let largest = rows.iter().map(|row| row.3).max().unwrap();
    let data = api
        .data(
            "
        { board(slug: \"largest-commit\") { standings { top(first: 1) { nodes { score } } } } }",
            json!({}),
        )
        .await;
    assert_eq!(data["board"]["standings"]["top"]["nodes"][0]["score"], largest.to_string());

    let present = "{ board(slug: \"recent\") { today: standings(of: { window: \"daily\" }) { size }
        week: standings(of: { window: \"weekly\" }) { size } days: standings(of: { window: \"7d\" }) { size } } }";
    let data = api.data(present, json!({})).await;
    for period in ["today", "week", "days"] {
        assert!(data["board"][period]["size"].as_i64().unwrap() > 0, "{data}");
    }

    check_diff(&deployment);
}

/// A month of a board, compared with the events that it holds.
async fn check_month(api: &Api, rows: &[Row], board: &str, period: &str) {
    let query = "
        query($b: String!, $p: String!) { board(slug: $b) {
            standings(of: { window: \"monthly\", period: $p }) {
                size top(first: 1000) { nodes { score reachedAt member { key } } }
            }
        } }";
    let expected = ranking(rows, |row| row.0 == board && month(row.2) == period);
    let data = api.data(query, json!({ "b": board, "p": period })).await;
    let standings = &data["board"]["standings"];
    assert_eq!(standings["size"], expected.len(), "{board} {period}");
    assert_eq!(standings["top"]["nodes"], listed(&expected), "{board} {period}");
}
