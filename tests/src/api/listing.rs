//! Standings read through GraphQL, page by page, and compared with the oracle.

use ranking::window::Window;
use serde_json::{Value, json};

use crate::api::Api;
use crate::api::attempts::check_attempts;
use crate::model::oracle::{Oracle, Row};
use crate::wait::until;

const PAGE: &str = "
    query(
        $slug: String!, $window: String!, $period: String, $first: Int, $after: String, $last: Int,
        $before: String
    ) { board(slug: $slug) { standings(of: { window: $window, period: $period }) {
        size
        top(first: $first, after: $after, last: $last, before: $before) {
            totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
            nodes {
                rank competition: rank(method: COMPETITION) dense: rank(method: DENSE) score
                reachedAt percentile metadata member { key }
            }
        }
    } } }";

const RANKS: &str = "
    query($slug: String!, $window: String!, $period: String, $members: [String!]!, $one: String!) {
        board(slug: $slug) { standings(of: { window: $window, period: $period }) {
            entries(members: $members) { rank member { key } }
            neighbors(member: $one, above: 3, below: 4) { rank member { key } }
        } }
    }";

/// The direction in which a listing is walked.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    Forward,
    Backward,
}

/// The standings of a board in one period.
#[derive(Debug, Clone)]
pub struct Listing {
    pub slug: String,
    pub window: Window,
    pub period: String,
}

impl Listing {
    /// All its entries in the order served, in pages of this size. A write between the look-ups of
    /// one walk is no fault of theirs: it is walked again until the total is that of the rows.
    pub async fn walk(&self, api: &Api, page: usize, way: Way) -> Vec<Row> {
        until("the total is that of the rows", async || self.walk_once(api, page, way).await).await
    }

    /// `None` if the total is not that of the rows.
    async fn walk_once(&self, api: &Api, page: usize, way: Way) -> Option<Vec<Row>> {
        let mut rows = vec![];
        let mut cursor = Value::Null;
        loop {
            let mut variables = self.variables();
            let (count, from, more, end) = match way {
                Way::Forward => ("first", "after", "hasNextPage", "endCursor"),
                Way::Backward => ("last", "before", "hasPreviousPage", "startCursor"),
            };
            variables[count] = page.into();
            variables[from] = cursor;
            let data = api.data(PAGE, variables).await;
            let standings = &data["board"]["standings"];
            let top = &standings["top"];
            assert_eq!(standings["size"], top["totalCount"]);
            let entries: Vec<Row> = top["nodes"].as_array().unwrap().iter().map(row).collect();
            match way {
                Way::Forward => rows.extend(entries),
                Way::Backward => {
                    rows.splice(0..0, entries);
                }
            }
            let info = &top["pageInfo"];
            if info[more] == false {
                return (top["totalCount"] == rows.len()).then_some(rows);
            }
            assert_eq!(info[more], true);
            cursor = info[end].clone();
        }
    }

    /// Asks for members' ranks and the neighbors of one, and compares both with the rows of the
    /// listing.
    pub async fn check_ranks(&self, api: &Api, rows: &[Row]) {
        let mut members: Vec<&str> =
            rows.iter().map(|row| row.member.as_str()).rev().take(999).collect();
        members.push("nobody");
        let center = rows.len() / 2;
        let mut variables = self.variables();
        variables["members"] = json!(members);
        variables["one"] = json!(rows[center].member);
        let data = api.data(RANKS, variables).await;
        let standings = &data["board"]["standings"];
        let entry = |row: &Row| json!({ "rank": row.rank, "member": { "key": row.member } });
        let mut expected: Vec<Value> = rows.iter().rev().take(999).map(entry).collect();
        expected.push(Value::Null);
        assert_eq!(standings["entries"], json!(expected), "{self:?}");
        let around = &rows[center.saturating_sub(3)..rows.len().min(center + 5)];
        let expected: Vec<Value> = around.iter().map(entry).collect();
        assert_eq!(standings["neighbors"], json!(expected), "{self:?}");
    }

    fn variables(&self) -> Value {
        json!({ "slug": self.slug, "window": self.window.to_string(), "period": self.period })
    }
}

/// Compares every entry of every period of every window with the oracle, and the all-time standings
/// in SQL too. An answer may be a moment old, so each is waited for.
pub async fn check_board(api: &Api, oracle: &Oracle) {
    check_standings(api, oracle).await;
    check_sql(api, oracle).await;
}

/// Compares every entry of every period of every window with the oracle, like [`check_board`], and
/// the attempts of its members.
pub async fn check_standings(api: &Api, oracle: &Oracle) {
    let slug = &oracle.board.slug;
    for (number, ((window, period), expected)) in oracle.standings().into_iter().enumerate() {
        let listing = Listing { slug: slug.clone(), window, period };
        let page = [2, 7, 1000][number % 3].max(expected.len() / 10);
        let way = [Way::Forward, Way::Backward][number / 3 % 2];
        let mut seen = vec![];
        for _ in 0..50 {
            seen = listing.walk(api, page, way).await;
            if seen == expected {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(seen, expected, "{listing:?} of {:?}", oracle.board);
        listing.check_ranks(api, &expected).await;
    }
    check_attempts(api, oracle).await;
}

/// Compares the rows of a board in SQL with the oracle once SQL has all of them: each event once,
/// and the all-time standings.
async fn check_sql(api: &Api, oracle: &Oracle) {
    let (deployment, slug) = (api.deployment(), &oracle.board.slug);
    let of_board = format!("board_no = (SELECT no FROM board WHERE slug = '{slug}')");
    let count = format!("SELECT CAST(COUNT(*) AS BIGINT) FROM score_event WHERE {of_board}");
    let accepted = oracle.accepted().len() as i64;
    until("every event is in SQL", async || {
        (deployment.number(&count).await >= accepted).then_some(())
    })
    .await;
    assert_eq!(deployment.number(&count).await, accepted, "events of {slug} in SQL");
    let twice = format!(
        "SELECT event_id FROM score_event WHERE {of_board} AND event_id IS NOT NULL \
            GROUP BY member, event_id HAVING COUNT(*) > 1"
    );
    assert_eq!(
        deployment.column::<String>(&twice).await,
        [""; 0],
        "event ids of {slug} that SQL has twice"
    );
    check_all_time_in_sql(api, oracle).await;
}

/// Waits until the all-time standings in SQL equal those of the oracle.
pub async fn check_all_time_in_sql(api: &Api, oracle: &Oracle) {
    let slug = &oracle.board.slug;
    let select = format!(
        "SELECT CAST(score AS TEXT) || ' ' || member FROM standing WHERE board_no = (SELECT no \
            FROM board WHERE slug = '{slug}') AND segment = '' ORDER BY rank_key, member"
    );
    let all = oracle.standings().remove(&(Window::All, "all".to_owned())).unwrap_or_default();
    let raw = |row: &Row| row.score.replace('.', "").parse::<i64>().unwrap();
    let expected: Vec<String> =
        all.iter().map(|row| format!("{} {}", raw(row), row.member)).collect();
    let what = format!("the all-time standings of {slug} are in SQL as {expected:?}");
    until(&what, async || {
        let rows: Vec<String> = api.deployment().column(&select).await;
        (rows == expected).then_some(())
    })
    .await;
}

fn row(node: &Value) -> Row {
    Row {
        member: node["member"]["key"].as_str().unwrap().to_owned(),
        score: node["score"].as_str().unwrap().to_owned(),
        rank: node["rank"].as_i64().unwrap(),
        competition_rank: node["competition"].as_i64().unwrap(),
        dense_rank: node["dense"].as_i64().unwrap(),
        reached_at: node["reachedAt"].as_str().map(str::to_owned),
        percentile: format!("{:.6}", node["percentile"].as_f64().unwrap()),
        metadata: node["metadata"].as_object().map(|_| node["metadata"].to_string()),
    }
}
