//! The number of scores that count in an entry, beside a count of what was sent.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::{events, remove, void};
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::UPSERT_MEMBERS;

const COUNTS: &str = "
    query($of: StandingsOf!) { board(slug: \"b\") { standings(of: $of) {
        top(first: 100) { nodes { scoresCounted member { key } } }
    } } }";

/// A score that was sent: its day of September 2025, and its event id.
#[derive(Debug, Clone)]
struct Sent {
    member: String,
    day: u32,
    event_id: String,
    is_gone: bool,
}

async fn counts(api: &Api, of: Value) -> BTreeMap<String, u64> {
    let mut data = api.data(COUNTS, json!({ "of": of })).await;
    let nodes = data["board"]["standings"]["top"]["nodes"].take();
    let count = |node: &Value| {
        let key = node["member"]["key"].as_str().unwrap().to_owned();
        (key, node["scoresCounted"].as_u64().unwrap_or_else(|| panic!("{node}")))
    };
    nodes.as_array().unwrap().iter().map(count).collect()
}

/// The counts of those that pass.
fn expected(sent: &[Sent], passes: impl Fn(&Sent) -> bool) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for one in sent.iter().filter(|one| !one.is_gone && passes(one)) {
        *counts.entry(one.member.clone()).or_default() += 1;
    }
    counts
}

async fn send(api: &Api, rng: &mut StdRng, sent: &mut Vec<Sent>, count: usize) {
    let mut scores = vec![];
    for _ in 0..count {
        let member = format!("m{:02}", rng.random_range(0..25));
        let (day, event_id) = (rng.random_range(1..4), format!("e{}", sent.len()));
        let hour = rng.random_range(0..24);
        scores.push(json!({
            "member": member, "score": rng.random_range(1..9), "eventId": event_id,
            "at": format!("2025-09-0{day}T{hour:02}:00:00Z"),
        }));
        sent.push(Sent { member, day, event_id, is_gone: false });
    }
    let told = submit_durably(api, "b", json!(scores)).await;
    assert_eq!(told["accepted"], count, "{told}");
}

async fn check(api: &Api, sent: &[Sent]) {
    let is_of_eu = |one: &Sent| one.member.as_str() < "m10";
    assert_eq!(counts(api, json!({})).await, expected(sent, |_| true));
    let segment = json!({ "segment": "region:eu" });
    assert_eq!(counts(api, segment).await, expected(sent, is_of_eu));
    for day in 1..4 {
        let period = format!("2025-09-0{day}");
        let of = json!({ "window": "daily", "period": period });
        assert_eq!(counts(api, of).await, expected(sent, |one| one.day == day), "{period}");
        let of = json!({ "window": "daily", "period": period, "segment": "region:eu" });
        assert_eq!(counts(api, of).await, expected(sent, |one| one.day == day && is_of_eu(one)));
    }
    let decaying = json!({ "window": "decay:7d" });
    assert_eq!(counts(api, decaying).await, expected(sent, |_| true));
}

#[tokio::test]
async fn an_entry_tells_how_many_scores_count_in_it() {
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let api = Api::start(&deployment).await;
        let windows = ["daily", "decay:7d"].map(|name| json!({ "name": name }));
        api.create_board(json!({
            "slug": "b", "windows": windows, "policy": "SUM", "shards": 4, "segmentBy": ["region"],
        }))
        .await;
        let members: Vec<Value> =
            (0..10).map(|no| json!({ "key": format!("m{no:02}"), "region": "eu" })).collect();
        api.data(UPSERT_MEMBERS, json!({ "members": members })).await;
        let (mut rng, mut sent) = (StdRng::seed_from_u64(3), vec![]);
        send(&api, &mut rng, &mut sent, 400).await;
        check(&api, &sent).await;

        for member in ["m01", "m12"] {
            remove(&api, "b", member).await;
            sent.iter_mut().filter(|one| one.member == member).for_each(|one| one.is_gone = true);
        }
        send(&api, &mut rng, &mut sent, 200).await;
        for member in ["m01", "m03", "m20"] {
            let last = sent.iter_mut().rev().find(|one| one.member == member).unwrap();
            let listed = events(&api, "b", member).await;
            let listed = listed.iter().find(|event| event["eventId"] == last.event_id).unwrap();
            assert_eq!(void(&api, listed["id"].as_str().unwrap()).await.codes(), [""; 0]);
            last.is_gone = true;
        }
        check(&api, &sent).await;

        let removal = events(&api, "b", "m12").await;
        let removal = removal.iter().find(|event| event["kind"] == "REMOVAL").unwrap();
        assert_eq!(void(&api, removal["id"].as_str().unwrap()).await.codes(), [""; 0]);
        sent.iter_mut().filter(|one| one.member == "m12").for_each(|one| one.is_gone = false);
        check(&api, &sent).await;
    }
}

#[tokio::test]
async fn a_request_counts_among_bounded_events() {
    const DAYS: u32 = 14;
    const SCORES: u32 = 9_000;
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "windows": [{ "name": "daily" }] })).await;
    let scores: Vec<Value> = (0..SCORES)
        .map(|no| {
            let at = format!("2025-09-{:02}T12:00:00Z", 1 + no % DAYS);
            json!({ "member": "m", "score": 1, "at": at })
        })
        .collect();
    for some in scores.chunks(1000) {
        submit_durably(&api, "b", json!(some)).await;
    }
    let days = (1..=DAYS).map(|day| {
        format!(
            "d{day}: standings(of: {{ window: \"daily\", period: \"2025-09-{day:02}\" }}) \
                {{ entry(member: \"m\") {{ scoresCounted }} }}"
        )
    });
    let days: Vec<String> = days.collect();
    let query = format!("{{ board(slug: \"b\") {{ {} }} }}", days.join(" "));
    let answer = api.ask(None, &query, json!({})).await;
    let counted = answer.body["data"]["board"].as_object().unwrap().values();
    let counted: Vec<u64> =
        counted.filter_map(|day| day["entry"]["scoresCounted"].as_u64()).collect();
    // A count passes all events of the member: 12 of them are more than 100,000.
    assert_eq!(counted.len(), 12, "{}", answer.body);
    assert!(counted.iter().all(|scores| (642..=643).contains(scores)), "{counted:?}");
    assert_eq!(answer.codes(), ["LIMIT_EXCEEDED"; 2]);
}
