//! The requests of honest clients pass every limit at its default, and their scores wait for no
//! reads.

use entity::sql::begin;
use futures::future::join_all;
use futures::stream::{self, StreamExt};
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};
use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::attack::boards::{self, FRIENDS, key};
use tests::attack::introspection::of_types;
use tests::attack::request::Attack;
use tests::attack::{Attacked, UNRATED};
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::SUBMIT_SCORES;
use tests::model::schema::INTROSPECTION;
use tests::wait::until;

/// A key of 128 bytes, the longest.
fn long_key(number: usize) -> String {
    format!("{number:0>128}")
}

/// The requests of honest clients that are large.
fn large() -> Vec<Attack> {
    let keys: Vec<String> = (0..1000).map(long_key).collect();
    let few: Vec<String> = (0..1000).map(key).collect();
    let score = |number: usize| {
        let event_id = format!("{number:08}-0000-4000-8000-000000000000");
        json!({ "member": long_key(number), "score": 7, "eventId": event_id })
    };
    let scores: Vec<Value> = (0..1000).map(score).collect();
    let members: Vec<Value> = (0..1000)
        .map(|number| json!({ "key": long_key(number), "name": "n".repeat(100) }))
        .collect();
    let ranks = "query($k:[String!]!){board(slug:\"big\"){standings{entries(members:$k){rank score member{key}}}}}";
    let page = "{board(slug:\"big\"){standings{size top(first:200){totalCount pageInfo{endCursor}
        nodes{rank score value percentile reachedAt member{key name}}}}}}";
    let aliases: String = (0..50)
        .map(|number| format!("a{number}:entry(member:\"{}\"){{rank score}} ", key(number)))
        .collect();
    let around = "{board(slug:\"big\"){standings{entry(member:\"m00007\"){rank score}
        neighbors(member:\"m00007\",above:25,below:25){rank score member{name}}}}}";
    let submitted = json!({ "board": "big16", "scores": scores, "ack": "DURABLE" });
    vec![
        Attack::new("1,000 scores", SUBMIT_SCORES, submitted).as_admin().served(),
        Attack::new(
            "1,000 members are named",
            "mutation($members:[MemberInput!]!){upsertMembers(input:{members:$members}){members{key name}}}",
            json!({ "members": members }),
        )
        .as_admin()
        .served(),
        Attack::new(
            "1,000 members of 128 B",
            "query($k:[String!]!){members(keys:$k){key name}}",
            json!({ "k": keys }),
        )
        .served(),
        Attack::new("1,000 ranks", ranks, json!({ "k": few })).served(),
        Attack::new("1,000 ranks of long keys", ranks, json!({ "k": keys })).served(),
        Attack::query("a page of 200", page).served(),
        Attack::query("50 aliases", &format!("{{board(slug:\"big\"){{standings{{{aliases}}}}}}}"))
            .served(),
        Attack::query("a member and its neighbors", around).served(),
        Attack::query("GraphiQL", INTROSPECTION).served(),
        of_types(9).served(),
    ]
}

/// A board whose scores have metadata and attributes, and 1,000 of them with all they may have.
fn whole_scores() -> (Value, Value) {
    let segments = ["device", "guild", "league"];
    let board = json!({ "slug": "whole", "decimals": 2, "maxScore": "1000", "metadata": true, "segmentBy": segments });
    let score = |number: usize| {
        json!({
            "member": key(number), "score": "12.50", "at": "2026-01-02T03:04:05.678Z",
            "eventId": format!("{number:08}-0000-4000-8000-000000000000"),
            "metadata": { "replay": format!("r{number}"), "level": 7 },
            "attributes": segments.map(|name| json!({ "name": name, "value": "v".repeat(20) })),
            "position": { "partition": 0, "offset": number.to_string(), "index": 0 },
        })
    };
    let scores: Vec<Value> = (0..1000).map(score).collect();
    let source = json!({ "name": "queue" });
    let input = json!({ "board": "whole", "scores": scores, "ack": "DURABLE", "source": source });
    (board, input)
}

/// Walks through all friends of the first member in pages of 1,000.
async fn walk(api: &Api, text: &str, pointer: &str) -> usize {
    let (mut friends, mut after) = (0, Value::Null);
    loop {
        let mut data = api.data(text, json!({ "after": after })).await;
        let page = data.pointer_mut(pointer).unwrap().take();
        friends += page["nodes"].as_array().unwrap().len();
        if page["pageInfo"]["hasNextPage"] == false {
            return friends;
        }
        after = page["pageInfo"]["endCursor"].clone();
    }
}

#[tokio::test]
async fn honest_clients_are_served() {
    // The tests' own setting is another one.
    let server = Attacked::start_with(&[("LAUREL_ADDRESS_CONNECTIONS_MAX", "256")]).await;
    let deployment = server.api.deployment();
    boards::create(&server.api).await;
    boards::befriend(deployment).await;
    boards::fill(deployment, "big").await;
    let pages = "totalCount pageInfo{hasNextPage endCursor}";
    let listed = format!(
        "query($after:String){{member(key:\"m00000\"){{friends(first:1000,after:$after){{{pages} nodes{{key}}}}}}}}"
    );
    assert_eq!(walk(&server.api, &listed, "/member/friends").await, FRIENDS[0]);
    let ranked = format!(
        "query($after:String){{board(slug:\"big\"){{standings{{friends(member:\"m00000\",includeSelf:false,first:1000,after:$after){{{pages} nodes{{position entry{{rank score}}}}}}}}}}}}"
    );
    assert_eq!(walk(&server.api, &ranked, "/board/standings/friends").await, FRIENDS[0]);
    let (board, whole) = whole_scores();
    server.api.create_board(board).await;
    let text = "mutation($i: SubmitScoresInput!) { submitScores(input: $i) { accepted } }";
    let told = server.api.data(text, json!({ "i": whole })).await;
    assert_eq!(told["submitScores"]["accepted"], 1000);
    server.withstands(&large()).await;
    // A school behind one address, all of it at once.
    let burst = stream::iter(0..100).map(async |number| {
        let text = format!(
            "{{board(slug:\"big\"){{standings{{top(first:{}){{nodes{{rank}}}}}}}}}}",
            50 + number
        );
        let attack = Attack::query("one of 100 reads", &text).served();
        let reply = server.send(&attack).await.unwrap();
        reply.faults(attack.outcome)
    });
    let faults = burst.buffer_unordered(32).collect::<Vec<_>>().await.concat();
    assert_eq!(faults, [""; 0]);
}

/// The readers whose statements wait, more than there are connections for reads.
const WAITING_READERS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_that_hold_all_their_connections_to_sql_keep_no_durable_score_waiting() {
    let deployment = Deployment::new(Sql::Postgres, Redis::Own).await;
    let settings = [("LAUREL_SQL_READ_CONNECTIONS", "2"), ("LAUREL_SQL_READ_TIMEOUT_MS", "60000")];
    let api = Api::start_with_settings(&deployment, &settings).await;
    api.create_board(json!({ "slug": "b" })).await;
    let members: Vec<Value> =
        (0..WAITING_READERS).map(|number| json!({ "key": key(number) })).collect();
    api.upsert_members(members).await;
    let score = |id: &str| json!([{ "member": "m00000", "score": 1, "eventId": id }]);
    assert_eq!(submit_durably(&api, "b", score("before")).await["accepted"], 1);
    let db = deployment.sql().await;
    // No score needs the table.
    let held = begin(&db).await.unwrap();
    held.execute_unprepared("LOCK TABLE friendship IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let read = async |number: usize| {
        let text = "query($key: String!) { member(key: $key) { friends { totalCount } } }";
        let answer = api.ask(Some(api.token()), text, json!({ "key": key(number) })).await;
        // Those that find no connection are told so after some seconds.
        let is_told = answer.codes().iter().all(|code| *code == "UNAVAILABLE");
        assert!(is_told, "{}", answer.body);
    };
    let reading = (0..WAITING_READERS).map(read);
    let waiting = "SELECT CAST(COUNT(*) AS BIGINT) FROM pg_locks WHERE NOT granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND relation = CAST('friendship' AS regclass)";
    let submitting = async {
        until("all connections for reads wait", async || {
            (deployment.number(waiting).await == 2).then_some(())
        })
        .await;
        for number in 0..5 {
            let told = submit_durably(&api, "b", score(&format!("beside-{number}"))).await;
            assert_eq!(told["accepted"], 1, "{told}");
        }
        assert_eq!(deployment.number(waiting).await, 2, "the readers wait all the time");
        held.rollback().await.unwrap();
    };
    tokio::join!(join_all(reading), submitting);
    db.close().await.unwrap();
}

#[tokio::test]
async fn the_price_of_a_query_is_told_on_request() {
    let server = Attacked::start_with(&UNRATED).await;
    boards::create(&server.api).await;
    let attack = Attack::query("a page", "{board(slug:\"big\"){standings{top{nodes{rank}}}}}");
    let reply = server.send(&attack).await.unwrap();
    let cost = &reply.body()["extensions"]["cost"];
    let (points, limit) = (cost["points"].as_u64().unwrap(), cost["limit"].as_u64().unwrap());
    assert!(points > 0 && points < limit, "{cost}");
    assert_eq!(limit, 200_000);
}

#[tokio::test]
async fn reads_wait_for_no_scores_that_wait_for_sql() {
    // Room for two light requests.
    let room = ("LAUREL_COST_UNDER_WAY_MAX", "20000");
    let server = Attacked::start_with(&[&UNRATED[..], &[room]].concat()).await;
    let api = &server.api;
    api.create_board(json!({ "slug": "b" })).await;
    let db = api.deployment().sql().await;
    let locked = begin(&db).await.unwrap();
    let submit = |number: usize| {
        let scores = json!([{ "member": key(number), "score": 1 }]);
        let input = json!({ "board": "b", "scores": scores, "ack": "DURABLE" });
        Attack::new("a score", SUBMIT_SCORES, input).as_admin()
    };
    let submissions: Vec<Attack> = (0..20).map(submit).collect();
    let submitting = join_all(submissions.iter().map(|submission| server.send(submission)));
    let reading = async {
        until("all of them are ranked", async || {
            let data = api.data("{ board(slug: \"b\") { standings { size } } }", json!({})).await;
            (data["board"]["standings"]["size"] == submissions.len()).then_some(())
        })
        .await;
        locked.rollback().await.unwrap();
    };
    let (submitted, ()) = futures::future::join(submitting, reading).await;
    for reply in submitted {
        assert_eq!(reply.unwrap().body()["data"]["submitScores"]["accepted"], 1);
    }
    db.close().await.unwrap();
}
