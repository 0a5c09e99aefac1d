//! Dense ranks on boards with very many scores and very many members of one score. Every listing
//! checks that they are right.

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit;
use tests::deployment::{Deployment, Redis, Sql};

const RANKS: &str = "
    query($members: [String!]!) { board(slug: \"b\") { standings {
        entries(members: $members) { dense: rank(method: DENSE) }
    } } }";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dense_ranks_are_counted_over_ten_thousand_scores() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "policy": "BEST", "shards": 4 })).await;
    // Three thousand share the best score, then each has one of its own.
    let score = |member: i64| {
        json!({
            "member": format!("m{member:05}"), "score": 100_000 - (member - 2_999).max(0),
        })
    };
    let scores: Vec<Value> = (0..13_010).map(score).collect();
    for batch in scores.chunks(1000) {
        let payload = submit(&api, "b", json!(batch)).await;
        assert_eq!(payload["accepted"], batch.len());
    }
    let ask = async |members: &[i64]| {
        let members: Vec<String> = members.iter().map(|member| format!("m{member:05}")).collect();
        let answer = api.ask(None, RANKS, json!({ "members": members })).await;
        let codes: Vec<String> = answer.codes().into_iter().map(str::to_owned).collect();
        (answer.body["data"]["board"]["standings"]["entries"].clone(), codes)
    };
    let (ranks, codes) = ask(&[12_998, 0, 2_999, 3_000, 7_777]).await;
    assert_eq!(codes, [""; 0]);
    let dense: Vec<i64> =
        ranks.as_array().unwrap().iter().map(|entry| entry["dense"].as_i64().unwrap()).collect();
    assert_eq!(dense, [10_000, 1, 1, 2, 4_779]);
    for beyond in [12_999, 13_009] {
        let (_, codes) = ask(&[beyond]).await;
        assert_eq!(codes, ["LIMIT_EXCEEDED"], "{beyond}");
    }
}
