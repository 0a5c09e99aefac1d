//! Windows in which scores decay, compared with sums of doubles: over GraphQL, added from history,
//! amended, rebuilt, restored and diffed.

use std::collections::BTreeMap;

use rand::prelude::*;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::{remove, void};
use tests::api::connection::Connection;
use tests::api::friends::change_friends;
use tests::api::submission::submit;
use tests::api::window::{set_windows, wait_until_ready};
use tests::clock::{self, now_ms};
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::ADD_FRIEND;
use tests::model::decay::{Earned, check_order, worth};
use tests::model::game::seeded;
use tests::wait::until;

const ENTRIES: &str = "
    query($slug: String!, $window: String!, $segment: String, $member: String!) {
        board(slug: $slug) { standings(of: { window: $window, segment: $segment }) {
            id source size period { label start end nextResetAt sealed }
            top(first: 1000) { nodes {
                id rank competition: rank(method: COMPETITION) score value reachedAt percentile
                member { key }
            } }
            distribution(buckets: 7) { lower upper count } scoreFor(percentile: 50)
            entryAt(rank: 2) { member { key } }
            neighbors(member: $member, above: 1, below: 1) { rank member { key } }
            friends(member: $member, first: 100) { nodes { entry { member { key } } } }
            entry(member: $member) { rank score }
        } }
    }";

const PAGE: &str = "
    query($window: String!, $first: Int, $after: String, $last: Int, $before: String) {
        board(slug: \"b\") { standings(of: { window: $window }) {
            top(first: $first, after: $after, last: $last, before: $before) {
                totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
                nodes { rank member { key } }
            }
        } }
    }";

const HOUR_MS: i64 = 3_600_000;

/// A board with decaying windows and its scores: in hundredths, by member.
struct Played {
    api: Api,
    earned: BTreeMap<String, Vec<Earned>>,
    regions: BTreeMap<String, &'static str>,
}

impl Played {
    async fn new(api: Api, rng: &mut impl Rng, shards: u16) -> Self {
        let windows = ["decay:1h", "daily", "decay:7d"].map(|name| json!({ "name": name }));
        let input = json!({
            "slug": "b", "shards": shards, "decimals": 2, "segmentBy": ["region"],
            "minScore": "-10000", "maxScore": "99999", "windows": windows,
        });
        let created = api.create_board(input).await;
        let windows = created["windows"].as_array().unwrap();
        let current = json!({
            "label": "all", "start": null, "end": null, "nextResetAt": null, "sealed": false,
        });
        let decaying: Vec<&Value> =
            windows.iter().filter(|window| window["kind"] == "DECAY").collect();
        assert_eq!(decaying.len(), 2);
        for window in decaying {
            assert_eq!((&window["ready"], &window["current"]), (&json!(true), &current));
        }
        let mut played = Self { api, earned: BTreeMap::new(), regions: BTreeMap::new() };
        let members: Vec<Value> = (0..40)
            .map(|member| {
                let (key, region) = (format!("m{member:02}"), ["eu", "us"][member % 2]);
                played.regions.insert(key.clone(), region);
                json!({ "key": key, "region": region })
            })
            .collect();
        played.api.upsert_members(members).await;
        for other in 1..20 {
            change_friends(&played.api, ADD_FRIEND, ("m00", &format!("m{other:02}"))).await;
        }
        for _ in 0..6 {
            played.play(rng, 50).await;
        }
        played
    }

    /// Random scores of the last forty days, most of the last hours. Those whom the checks look at
    /// always have one.
    async fn play(&mut self, rng: &mut impl Rng, count: usize) {
        let now_ms = clock::now_ms();
        let mut scores = vec![];
        for index in 0..count {
            let number = if index < 2 { index } else { rng.random_range(0..40) };
            let member = format!("m{number:02}");
            let hours = if rng.random_bool(0.6) { 5 } else { 40 * 24 };
            let at_ms = now_ms - rng.random_range(0..hours * HOUR_MS);
            let score = if rng.random_bool(0.2) {
                rng.random_range(-3000..0)
            } else {
                rng.random_range(0..20_000)
            };
            let at = jiff::Timestamp::from_millisecond(at_ms).unwrap();
            scores.push(json!({
                "member": member, "score": format!("{:.2}", f64::from(score) / 100.0),
                "at": at.to_string(),
            }));
            self.earned.entry(member).or_default().push((score.into(), at_ms));
        }
        let payload = submit(&self.api, "b", json!(scores)).await;
        assert_eq!(payload["accepted"], count, "{payload}");
    }

    /// Checks every answer about one window.
    async fn check(&self, window: &str, segment: Option<&str>) {
        let half_life = window.parse::<ranking::window::Window>().unwrap().half_life().unwrap();
        let region = |member: &str| format!("region:{}", self.regions[member]);
        let inside = |member: &&str| segment.is_none_or(|segment| region(member) == segment);
        let earned: BTreeMap<&str, Vec<Earned>> = self
            .earned
            .iter()
            .map(|(member, events)| (member.as_str(), events.clone()))
            .filter(|(member, _)| inside(member))
            .collect();
        let center = if segment.is_none() { "m00" } else { "m01" };
        let variables =
            json!({ "slug": "b", "window": window, "segment": segment, "member": center });
        // On a busy machine Redis may be taken to be away, and SQL may be a moment behind.
        let (before_ms, data, after_ms) = until("Redis answers", async || {
            let before_ms = now_ms();
            let data = self.api.data(ENTRIES, variables.clone()).await;
            let is_live = data["board"]["standings"]["source"] == "LIVE";
            is_live.then(|| (before_ms, data, now_ms()))
        })
        .await;
        let standings = &data["board"]["standings"];
        let nodes = standings["top"]["nodes"].as_array().unwrap();
        let keys: Vec<&str> = nodes.iter().map(key).collect();
        check_order(&keys, &earned, half_life);
        assert_eq!(standings["size"], keys.len());
        for (index, node) in nodes.iter().enumerate() {
            // The value is as of the request, which is between the two instants.
            let [(early, off), (late, _)] =
                [before_ms, after_ms].map(|at_ms| worth(&earned[keys[index]], half_life, at_ms));
            let (low, high) = (early.min(late) - off, early.max(late) + off);
            let value = node["value"].as_f64().unwrap() * 100.0;
            assert!((low - 1e-9..=high + 1e-9).contains(&value), "{node}: {low} to {high}");
            let score = node["score"].as_str().unwrap();
            assert_eq!(score, format!("{:.8}", value / 100.0).replace("-0.00000000", "0.00000000"));
            assert_eq!((&node["rank"], &node["reachedAt"]), (&json!(index + 1), &Value::Null));
            assert_eq!(node["competition"], index + 1);
        }
        check_buckets(nodes, &standings["distribution"]);
        let median = nodes.len().div_ceil(2) - 1;
        assert_eq!(standings["scoreFor"], nodes[median]["score"]);
        assert_eq!(key(&standings["entryAt"]), keys[1]);
        let place = keys.iter().position(|key| *key == center).unwrap();
        let around: Vec<&str> =
            standings["neighbors"].as_array().unwrap().iter().map(key).collect();
        assert_eq!(around, &keys[place.saturating_sub(1)..keys.len().min(place + 2)]);
        assert_eq!(
            standings["entry"],
            json!({ "rank": place + 1, "score": nodes[place]["score"] })
        );
        if segment.is_none() {
            self.check_friends_and_pages(window, standings, &keys).await;
        }
        for id in [&standings["id"], &nodes[0]["id"]] {
            let data = self
                .api
                .data("query($id: ID!) { node(id: $id) { id } }", json!({ "id": id }))
                .await;
            assert_eq!(data["node"]["id"], *id);
        }
    }

    /// Checks the ranks of m00's friends, and the list page by page.
    async fn check_friends_and_pages(&self, window: &str, standings: &Value, keys: &[&str]) {
        let among = keys.iter().filter(|key| **key < "m20");
        let friends: Vec<&str> = standings["friends"]["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| key(&node["entry"]))
            .collect();
        assert_eq!(friends, among.copied().collect::<Vec<_>>());
        let pages = Connection {
            text: PAGE,
            variables: json!({ "window": window }),
            pointer: "/board/standings/top",
        };
        let paged = pages.nodes(&self.api).await;
        assert_eq!(paged.iter().map(key).collect::<Vec<_>>(), keys);
    }

    async fn check_all(&self, windows: &[&str]) {
        for window in windows {
            for segment in [None, Some("region:us")] {
                self.check(window, segment).await;
            }
        }
    }

    /// Every entry of its standings in Redis, with their doubles as text.
    async fn dump(&self) -> BTreeMap<String, Vec<(String, String)>> {
        let mut redis = self.api.deployment().redis().await;
        let mut keys = redis::cmd("KEYS");
        keys.arg("laurel:*:z:*");
        let keys: Vec<String> = keys.query_async(&mut redis).await.unwrap();
        let mut dump = BTreeMap::new();
        for key in keys {
            let mut range = redis::cmd("ZRANGE");
            range.arg(&key).arg(0).arg(-1).arg("WITHSCORES");
            dump.insert(key, range.query_async(&mut redis).await.unwrap());
        }
        dump
    }

    fn analytics(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.api.deployment().analytics(arguments);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    }
}

/// Checks that seven buckets of equal width have each entry once.
fn check_buckets(nodes: &[Value], distribution: &Value) {
    let value = |node: &Value| node["value"].as_f64().unwrap();
    let (high, low) = (value(&nodes[0]), value(nodes.last().unwrap()));
    let counts: Vec<i64> = distribution
        .as_array()
        .unwrap()
        .iter()
        .map(|bucket| bucket["count"].as_i64().unwrap())
        .collect();
    let expected: Vec<i64> = (0..7)
        .map(|bucket| {
            let of = |node: &&Value| {
                (((value(node) - low) / (high - low) * 7.0).floor() as i64).min(6) == bucket
            };
            nodes.iter().filter(of).count() as i64
        })
        .collect();
    assert_eq!(counts, expected, "{distribution}");
}

fn key(node: &Value) -> &str {
    node["member"]["key"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scores_that_decay_are_sums_of_what_is_left_of_them() {
    let mut rng = seeded();
    for (sql, shards) in Sql::all_with([1, 4]) {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let mut played = Played::new(Api::start(&deployment).await, &mut rng, shards).await;
        played.check_all(&["decay:1h", "decay:7d"]).await;

        // One member is removed and plays again, a score of another is voided.
        remove(&played.api, "b", "m05").await;
        played.earned.remove("m05");
        played.play(&mut rng, 60).await;
        let ask = "
            { member(key: \"m00\") { events(board: \"b\", first: 1000) { nodes {
                id score at
            } } } }";
        let mut events = json!([]);
        until("SQL has the events", async || {
            events = played.api.data(ask, json!({})).await["member"]["events"]["nodes"].take();
            (events.as_array()?.len() == played.earned["m00"].len()).then_some(())
        })
        .await;
        let voided = &events[events.as_array().unwrap().len() / 2];
        let answer = void(&played.api, voided["id"].as_str().unwrap()).await;
        assert_eq!(answer.codes(), [""; 0], "{}", answer.body);
        let at: jiff::Timestamp = voided["at"].as_str().unwrap().parse().unwrap();
        let of_m00 = played.earned.get_mut("m00").unwrap();
        let index = of_m00.iter().position(|(_, at_ms)| *at_ms == at.as_millisecond());
        of_m00.remove(index.unwrap());
        played.check_all(&["decay:1h", "decay:7d"]).await;

        // A window that is added later has all earlier scores.
        let windows = ["decay:1h", "decay:36h", "decay:7d"];
        set_windows(&played.api, "b", &windows).await;
        played.play(&mut rng, 50).await;
        wait_until_ready(&played.api, "b", &windows).await;
        played.check_all(&windows).await;

        // Rebuilt by polars or loaded from SQL, the standings are the same to the last bit.
        assert_eq!(played.analytics(&["diff"]).0, Some(0));
        let live = played.dump().await;
        assert_eq!(played.analytics(&["rebuild", "--board", "b"]).0, Some(0));
        assert_eq!(played.dump().await, live);
        deployment.flush_redis().await;
        until("Redis is loaded again", async || (played.dump().await == live).then_some(())).await;
        played.check_all(&windows).await;

        // Corruption is named and repaired.
        let (corrupted, entries) =
            live.iter().find(|(key, _)| key.contains("decay%3A36h")).unwrap();
        let (member, double) = entries.first().unwrap();
        let other = f64::from_bits(double.parse::<f64>().unwrap().to_bits() + 4096);
        let mut change = redis::cmd("ZADD");
        change.arg(corrupted).arg(format!("{other:.16e}")).arg(member);
        let () = change.query_async(&mut deployment.redis().await).await.unwrap();
        let (code, found) = played.analytics(&["diff"]);
        assert_eq!(code, Some(3), "{found}");
        assert!(
            found.contains("WRONG_SCORE")
                && found.contains("decay:36h all")
                && found.contains("found 1 diff"),
            "{found}"
        );
        assert_eq!(played.analytics(&["rebuild", "--board", "b"]).0, Some(0));
        assert_eq!(played.dump().await, live);
        assert_eq!(played.analytics(&["diff"]).0, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decaying_windows_that_cannot_be_are_refused() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let token = deployment.admin_token().await.to_owned();
    let create = async |rest: &str| {
        let text = format!(
            "mutation {{ createBoard(input: {{ slug: \"x\", {rest} }}) {{ board {{ id }} }} }}"
        );
        api.ask(Some(&token), &text, json!({})).await
    };
    for (rest, reason) in [
        ("policy: BEST, windows: [{ name: \"decay:7d\" }]", "policy SUM and direction HIGH_FIRST"),
        (
            "policy: LATEST, windows: [{ name: \"decay:7d\" }]",
            "policy SUM and direction HIGH_FIRST",
        ),
        (
            "direction: LOW_FIRST, windows: [{ name: \"decay:7d\" }]",
            "policy SUM and direction HIGH_FIRST",
        ),
        ("windows: [{ name: \"decay:2mo\" }]", "hours, days or weeks"),
        ("windows: [{ name: \"decay:7d\", retain: 3 }]", "without retain"),
        ("windows: [{ name: \"decay:7d\" }, { name: \"decay:7d\" }]", "named twice"),
    ] {
        let refused = create(rest).await;
        assert_eq!(refused.codes(), ["BAD_USER_INPUT"], "{rest}");
        assert!(refused.message().contains(reason), "{}", refused.message());
    }
    // The widest range leaves no room for a time in any other window.
    let widest = "maxScore: \"9007199254740991\", tieBreak: MEMBER, \
        windows: [{ name: \"decay:1h\" }, { name: \"decay:366w\" }]";
    let widest = create(widest).await;
    assert_eq!(widest.codes(), [""; 0]);
    let scores = json!([
        { "member": "a", "score": "9007199254740990" },
        { "member": "b", "score": "9007199254740991" },
    ]);
    submit(&api, "x", scores).await;
    let ask = "
        { board(slug: \"x\") {
            periods(window: \"decay:1h\") { totalCount nodes { label } }
            standings(of: { window: \"decay:366w\" }) { top { nodes {
                member { key } change
            } } }
        } }";
    let data = api.data(ask, json!({})).await;
    assert_eq!(data["board"]["periods"], json!({ "totalCount": 1, "nodes": [{ "label": "all" }] }));
    let nodes = data["board"]["standings"]["top"]["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 2);
    assert!(nodes.iter().all(|node| node["change"].is_null()));
}
