//! Seals: past periods leave Redis for SQL, and nobody who reads can tell but by what says so.

use std::collections::BTreeSet;
use std::sync::Arc;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use ranking::window::Window;
use serde_json::{Value, json};

use crate::amendments::check_diff;
use crate::api::Api;
use crate::connection::{Connection, texts};
use crate::deployment::{Deployment, Redis, Sql};
use crate::friends::{ADD, changed};
use crate::game::{Game, Range, every_game, seeded};
use crate::listing::check_standings;
use crate::load::submit_events;
use crate::oracle::{Board, Oracle};
use crate::wait::until;

const CREATE: &str =
    "mutation($input: CreateBoardInput!) { createBoard(input: $input) { board { slug } } }";

const UPSERT: &str =
    "mutation($input: [MemberInput!]!) { upsertMembers(input: $input) { members { key } } }";

const UPDATE: &str = "mutation($slug: String!, $windows: [WindowInput!]!) { updateBoard(input: { slug: $slug, windows: $windows }) {
    board { windows { name ready retain } } } }";

const PERIODS: &str = "query($slug: String!, $window: String!, $first: Int, $after: String, $last: Int, $before: String) { board(slug: $slug) {
    periods(window: $window, first: $first, after: $after, last: $last, before: $before) {
        totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor } nodes { label start end sealed } } } }";

/// All that can be asked of a standings.
const ALL: &str = "query($slug: String!, $window: String!, $period: String!, $segment: String, $one: String!, $members: [String!]!) { board(slug: $slug) {
    standings(window: $window, period: $period, segment: $segment) {
        id source size segment period { label start end nextResetAt sealed }
        top(first: 100) { totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor } edges { cursor }
            nodes { id rank competition: rank(method: COMPETITION) dense: rank(method: DENSE) score value reachedAt percentile member { key } } }
        end: top(last: 3) { pageInfo { hasNextPage hasPreviousPage } nodes { rank member { key } } }
        beyond: top(first: 3, offset: 1000) { pageInfo { hasNextPage hasPreviousPage } nodes { rank } }
        middle: top(first: 3, offset: 2) { pageInfo { hasNextPage hasPreviousPage startCursor endCursor } nodes { rank member { key } } }
        rank(member: $one) { rank percentile } ranks(members: $members) { rank score member { key } }
        neighbors(member: $one, above: 2, below: 3) { rank member { key } }
        first: entryAt(rank: 1) { score member { key } } third: entryAt(rank: 3) { score member { key } } none: entryAt(rank: 1000) { score }
        friends(member: $one, first: 3, includeMissing: true) { totalCount pageInfo { hasNextPage endCursor } nodes { position isSelf entry { rank score member { key } } } missing { key } }
        scoreFor(percentile: 50) distribution(buckets: 5) { from to count } } } }";

const PAGES: &str = "query($slug: String!, $window: String!, $period: String!, $segment: String, $first: Int, $after: String, $last: Int, $before: String) { board(slug: $slug) {
    standings(window: $window, period: $period, segment: $segment) { top(first: $first, after: $after, last: $last, before: $before) {
        totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor } nodes { rank score member { key } } } } } }";

/// Whom a region has.
const REGIONS: [&str; 2] = ["eu", "us"];

/// Says how many past periods each window of a board retains; an update that changes nothing else.
pub(crate) async fn retain(api: &Api, board: &Board, retain: u32) {
    let window = |window: &Window| json!({ "name": window.to_string(), "retain": retain });
    let windows: Vec<Value> = board.windows.iter().map(window).collect();
    let told = api.data(UPDATE, json!({ "slug": board.slug, "windows": windows })).await;
    for window in told["updateBoard"]["board"]["windows"].as_array().unwrap() {
        assert_eq!(window["ready"], true);
        if window["name"] != "all" {
            assert_eq!(window["retain"], retain, "{told}");
        }
    }
}

/// Waits until every window of a board has sealed periods, and nothing of them is left to do.
pub(crate) async fn wait_until_dropped(api: &Api, slug: &str) {
    let select = format!("SELECT windows FROM board WHERE slug = '{slug}'");
    until("the board is sealed", async || {
        let rows: Vec<String> = api.deployment().column(&select).await;
        let windows: Value = serde_json::from_str(&rows[0]).unwrap();
        let mut windows = windows.as_array().unwrap().iter();
        let is_sealed = |window: &Value| {
            let before = |name: &str| window[name].as_i64();
            before("dropped_before_ms").is_some()
                && before("dropped_before_ms") == before("sealing_before_ms")
        };
        windows.all(is_sealed).then_some(())
    })
    .await;
}

/// Waits until every window of a board is sealed up to the present, and nothing of it is left to do.
pub(crate) async fn wait_until_sealed(api: &Api, board: &Board) {
    wait_until_dropped(api, &board.slug).await;
    // Boards are read from SQL again after a moment.
    for window in &board.windows {
        until("the board is known to be sealed", async || {
            let asked = json!({ "slug": board.slug, "window": window.to_string(), "period": "1980-01-01" });
            let period = window.period_at(400_000_000_000, &jiff::tz::TimeZone::get(board.zone).unwrap());
            let mut asked = asked;
            asked["period"] = json!(period.unwrap().label);
            let text = "query($slug: String!, $window: String!, $period: String!) { board(slug: $slug) { standings(window: $window, period: $period) { source } } }";
            let data = api.data(text, asked).await;
            (data["board"]["standings"]["source"] == "ARCHIVE").then_some(())
        })
        .await;
    }
}

/// The keys in Redis of standings and lists of periods of windows besides `all`.
async fn keys_left(deployment: &Deployment) -> Vec<String> {
    let mut keys: Vec<String> = redis::cmd("KEYS")
        .arg("laurel:*")
        .query_async(&mut deployment.redis().await)
        .await
        .unwrap();
    keys.retain(|key| {
        (key.contains("}:z:") && !key.contains(":all:")) || key.contains("}:periods:")
    });
    keys
}

/// A board with regions, and members who have one or none, and friends.
async fn regional(api: &Api, game: &Game) -> Vec<String> {
    let mut input = game.board.input();
    input["segmentBy"] = json!(["region"]);
    api.data(CREATE, json!({ "input": input })).await;
    let members: BTreeSet<String> = game.events.iter().map(|event| event.member.clone()).collect();
    let members: Vec<String> = members.into_iter().collect();
    let with_region = |(number, key): (usize, &String)| match number % 3 {
        2 => json!({ "key": key }),
        region => json!({ "key": key, "region": REGIONS[region] }),
    };
    let input: Vec<Value> = members.iter().enumerate().map(with_region).collect();
    api.data(UPSERT, json!({ "input": input })).await;
    for friend in &members[1..members.len() / 2] {
        changed(api, ADD, (&members[0], friend)).await;
    }
    members
}

/// All that is said of every standings besides `all`, with where from and whether it is sealed.
async fn snapshot(api: &Api, oracle: &Oracle, members: &[String]) -> Vec<(Value, Value)> {
    let mut said = vec![];
    for ((window, period), _) in oracle.standings() {
        for segment in [None, Some("region:eu"), Some("region:us")] {
            let asked = json!({ "slug": oracle.board.slug, "window": window.to_string(), "period": period, "segment": segment,
                "one": members[0], "members": members });
            let mut data = api.data(ALL, asked.clone()).await;
            let standings = &mut data["board"]["standings"];
            let from = json!([standings["source"].take(), standings["period"]["sealed"].take()]);
            if window == Window::All {
                assert_eq!(from, json!(["LIVE", false]));
                continue;
            }
            let pages =
                Connection { text: PAGES, variables: asked, pointer: "/board/standings/top" };
            let pages = pages.nodes(api).await;
            said.push((from, json!([standings.take(), pages])));
        }
    }
    for window in &oracle.board.windows {
        let mut periods = Connection {
            text: PERIODS,
            variables: json!({ "slug": oracle.board.slug, "window": window.to_string() }),
            pointer: "/board/periods",
        };
        let all = periods.forward(api, 1000).await;
        // What is sealed may change from one walk to the next.
        let unsealed = PERIODS.replace(" sealed", "");
        periods.text = &unsealed;
        let paged = periods.nodes(api).await;
        let mut periods = all;
        assert_eq!(texts(&paged, "/label"), texts(&periods, "/label"));
        assert_eq!(texts(&periods, "/label"), oracle.periods(*window));
        for period in &mut periods {
            let sealed = period["sealed"].take();
            let source = if sealed == true { "ARCHIVE" } else { "LIVE" };
            said.push((json!([source, sealed]), period.take()));
        }
    }
    said
}

/// A process that does no background work.
async fn without_workers(deployment: &Arc<Deployment>) -> Api {
    // The first one makes the partitions level.
    drop(Api::start(deployment).await);
    Api::start_with(deployment, &["--no-workers"]).await
}

fn random_games(rng: &mut StdRng, shards: u16, count: usize) -> Vec<Game> {
    let mut games = every_game(rng, shards, Range::Wide, 60);
    games.retain(|game| !game.board.windows.is_empty());
    games.shuffle(rng);
    games.truncate(count);
    games
}

async fn check_equal(sql: Sql, shards: u16) {
    let mut rng = seeded();
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    for game in random_games(&mut rng, shards, 5) {
        let members = regional(&api, &game).await;
        submit_events(&api, &game.board, &game.events).await;
        let mut oracle = Oracle::new(game.board.clone());
        game.events.iter().for_each(|event| {
            oracle.submit(event);
        });
        let live = snapshot(&api, &oracle, &members).await;
        assert!(live.iter().all(|(from, _)| *from == json!(["LIVE", false])));
        retain(&api, &game.board, 0).await;
        wait_until_sealed(&api, &game.board).await;
        assert_eq!(keys_left(&deployment).await, [""; 0]);
        let sealed = snapshot(&api, &oracle, &members).await;
        assert_eq!(live.len(), sealed.len());
        for ((_, live), (from, sealed)) in live.iter().zip(&sealed) {
            assert_eq!(*from, json!(["ARCHIVE", true]));
            assert_eq!(live, sealed, "{:?}", game.board);
        }
        check_standings(&api, &oracle).await;
        // More does not bring back what is sealed.
        retain(&api, &game.board, 1_000_000).await;
        assert_eq!(snapshot(&api, &oracle, &members).await, sealed);
    }
    check_diff(&deployment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sealed_reads_as_it_did_on_sqlite() {
    check_equal(Sql::Sqlite, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sealed_reads_as_it_did_in_four_shards_on_postgres() {
    check_equal(Sql::Postgres, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seal_that_is_cut_short_is_taken_up_and_readers_never_see_it() {
    for (sql, shards) in [(Sql::Sqlite, 4), (Sql::Postgres, 1)] {
        let mut rng = seeded();
        let deployment = Deployment::new(sql, Redis::Own).await;
        let api = without_workers(&deployment).await;
        let stores = deployment.open_stores().await;
        for game in random_games(&mut rng, shards, 2) {
            cut_short(&mut rng, &api, &stores, game).await;
        }
        stores.close().await;
        check_diff(&deployment);
    }
}

/// Gives SQL all that Redis has, as the background work does.
async fn settle(stores: &engine::deployment::Deployment) {
    for partition in stores.store.partitions().each() {
        engine::partition::recovery::settle(stores, partition).await.unwrap();
    }
}

/// Empties Redis of what SQL has, and waits until it is loaded again: a recovery that is cut short keeps others waiting.
async fn flush(api: &Api, stores: &engine::deployment::Deployment) {
    settle(stores).await;
    let flush = redis::cmd("FLUSHALL");
    flush.query_async::<()>(&mut api.deployment().redis().await).await.unwrap();
    settle(stores).await;
}

/// Seals a board in many attempts, most of which are cut short, while it is read and Redis is emptied now and then.
async fn cut_short(
    rng: &mut StdRng,
    api: &Api,
    stores: &engine::deployment::Deployment,
    game: Game,
) {
    let members = regional(api, &game).await;
    let (early, late) = game.events.split_at(45);
    submit_events(api, &game.board, early).await;
    settle(stores).await;
    let mut oracle = Oracle::new(game.board.clone());
    early.iter().for_each(|event| {
        oracle.submit(event);
    });
    let without_source = |said: Vec<(Value, Value)>| -> Vec<Value> {
        said.into_iter().map(|(_, said)| said).collect()
    };
    let live = without_source(snapshot(api, &oracle, &members).await);
    retain(api, &game.board, 0).await;
    let (stop, mut cuts) = (std::sync::atomic::AtomicBool::new(false), 0);
    let reading = async {
        let mut reads = 0;
        while !stop.load(std::sync::atomic::Ordering::Relaxed) || reads == 0 {
            let now = without_source(snapshot(api, &oracle, &members).await);
            assert_eq!(now, live, "{:?}", game.board);
            reads += 1;
        }
        reads
    };
    let sealing = async {
        let mut patience_us = 300;
        loop {
            let patience = std::time::Duration::from_micros(rng.random_range(0..patience_us));
            let sealed = engine::seal::seal(stores, entity::now_ms());
            match tokio::time::timeout(patience, sealed).await {
                Ok(Ok(_)) => break,
                Ok(Err(error)) => assert!(error.is_for_now(), "{error}"),
                Err(_) => {
                    cuts += 1;
                    patience_us += patience_us / 4;
                }
            }
            if rng.random_bool(0.1) {
                flush(api, stores).await;
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    let (reads, ()) = futures::join!(reading, sealing);
    println!("{}: {cuts} cuts, {reads} reads", game.board.slug);
    wait_until_sealed(api, &game.board).await;
    submit_events(api, &game.board, late).await;
    settle(stores).await;
    late.iter().for_each(|event| {
        oracle.submit(event);
    });
    check_standings(api, &oracle).await;
    assert_eq!(keys_left(api.deployment()).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_late_while_a_seal_is_cut_short_is_in_the_end_where_it_belongs() {
    let mut rng = seeded();
    for (sql, shards) in [(Sql::Sqlite, 2), (Sql::Postgres, 4)] {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let api = without_workers(&deployment).await;
        let stores = deployment.open_stores().await;
        for game in random_games(&mut rng, shards, 4) {
            late_in_between(&mut rng, &api, &stores, game).await;
        }
        stores.close().await;
        check_diff(&deployment);
    }
}

/// Scores, removals and voids between attempts to seal that are cut short.
async fn late_in_between(
    rng: &mut StdRng,
    api: &Api,
    stores: &engine::deployment::Deployment,
    game: Game,
) {
    use crate::history::{Amended, History};
    let slug = &game.board.slug;
    crate::load::create_board(api, &game.board).await;
    let mut history = History::new(game.board.clone());
    for (number, batch) in game.events.chunks(6).enumerate() {
        if number == 3 {
            retain(api, &game.board, 0).await;
        }
        let told = submit_events(api, &game.board, batch).await;
        let expected: Vec<_> = batch.iter().map(|event| history.submit(event)).collect();
        assert_eq!(told, expected);
        let mut patience_us = 2000;
        for _ in 0..3 {
            let sealed = engine::seal::seal(stores, entity::now_ms());
            let patience = std::time::Duration::from_micros(rng.random_range(0..patience_us));
            if let Ok(Err(error)) = tokio::time::timeout(patience, sealed).await {
                assert!(error.is_for_now(), "{error}");
            }
            patience_us *= 4;
            let numbers: Vec<usize> = (0..history.items().len()).collect();
            let &number = numbers.choose(rng).unwrap();
            let member = history.member(number).to_owned();
            if rng.random_bool(0.4) {
                let expected = history.remove(&member);
                let removed = crate::amendments::remove(api, slug, &member).await;
                assert_eq!(removed["removed"] == true, expected == Amended::Done);
            } else if !matches!(history.items()[number], crate::history::Item::Void(_)) {
                settle(stores).await;
                let seen = crate::amendments::events(api, slug, &member).await;
                let of_member = history.of_member(&member);
                let index = of_member.iter().position(|other| *other == number).unwrap();
                let id = seen[index]["id"].as_str().unwrap();
                let expected = history.void(number);
                let answer = crate::amendments::void(api, id).await;
                assert_eq!(answer.codes(), [""; 0], "{}", answer.body);
                let voided = answer.body["data"]["voidEvent"]["voided"] == true;
                assert_eq!(voided, expected == Amended::Done);
            }
            if rng.random_bool(0.1) {
                flush(api, stores).await;
            }
        }
    }
    until("the board is sealed", async || engine::seal::seal(stores, entity::now_ms()).await.ok())
        .await;
    wait_until_sealed(api, &game.board).await;
    settle(stores).await;
    crate::histories::check(api, &history).await;
}

/// A board with two windows, and a score in each of several months.
async fn months(api: &Arc<Deployment>, count: i64) -> (Api, Vec<String>) {
    let api = Api::start(api).await;
    let input = json!({ "slug": "b", "windows": [{ "name": "monthly", "retain": 2 }, { "name": "daily" }] });
    api.data(CREATE, json!({ "input": input })).await;
    let zone = jiff::tz::TimeZone::UTC;
    let mut period =
        Window::Monthly.period_at(jiff::Timestamp::now().as_millisecond(), &zone).unwrap();
    let (mut labels, mut scores) = (vec![], vec![]);
    for _ in 0..count {
        let at = jiff::Timestamp::from_millisecond(period.start_ms).unwrap();
        scores.push(json!({ "member": "ann", "score": 1, "at": at.to_string() }));
        labels.push(period.label);
        period = Window::Monthly.period_at(period.start_ms - 1, &zone).unwrap();
    }
    let told = crate::load::submit_durably(&api, "b", json!(scores)).await;
    assert_eq!(told["accepted"], count, "{told}");
    (api, labels)
}

async fn monthly_periods(api: &Api) -> Vec<(String, bool)> {
    let periods = Connection {
        text: PERIODS,
        variables: json!({ "slug": "b", "window": "monthly" }),
        pointer: "/board/periods",
    };
    let nodes = periods.forward(api, 1000).await;
    let period =
        |node: &Value| (node["label"].as_str().unwrap().to_owned(), node["sealed"] == true);
    nodes.iter().map(period).collect()
}

#[tokio::test]
async fn a_window_keeps_what_it_retains_and_a_dropped_one_nothing() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let (api, labels) = months(&deployment, 6).await;
    let kept = |retain: usize| {
        let sealed = |(number, label): (usize, &String)| (label.clone(), number > retain);
        labels.iter().enumerate().map(sealed).collect::<Vec<_>>()
    };
    for retain in [2, 1] {
        let windows = json!([{ "name": "monthly", "retain": retain }, { "name": "daily" }]);
        let told = api.data(UPDATE, json!({ "slug": "b", "windows": windows })).await;
        let said: Vec<Value> = told["updateBoard"]["board"]["windows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|window| json!([window["name"], window["retain"]]))
            .collect();
        let expected = json!([["all", 1_000_000], ["daily", 1_000_000], ["monthly", retain]]);
        assert_eq!(json!(said), expected);
        until("what is not retained is sealed", async || {
            (monthly_periods(&api).await == kept(retain)).then_some(())
        })
        .await;
    }
    assert_eq!(deployment.number("SELECT generation FROM board").await, 1);
    check_diff(&deployment);
    let rows = "SELECT CAST((SELECT COUNT(*) FROM sealed_period) + (SELECT COUNT(*) FROM sealed_entry) AS BIGINT)";
    assert_eq!(deployment.number(rows).await, 8);
    for windows in [
        json!([{ "name": "daily" }]),
        json!([{ "name": "daily" }, { "name": "monthly", "retain": 3 }]),
    ] {
        let is_back = windows.as_array().unwrap().len() == 2;
        api.data(UPDATE, json!({ "slug": "b", "windows": windows })).await;
        let left = if is_back { 4 } else { 0 };
        until("the archive has what the windows say", async || {
            (deployment.number(rows).await == left).then_some(())
        })
        .await;
    }
    until("the window is sealed anew", async || {
        (monthly_periods(&api).await == kept(3)).then_some(())
    })
    .await;
    check_diff(&deployment);
    api.data("mutation { deleteBoard(slug: \"b\") { deletedBoardId } }", json!({})).await;
    assert_eq!(deployment.number(rows).await, 0);
}

#[tokio::test]
async fn seals_by_hand_are_jobs() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let (api, labels) = months(&deployment, 4).await;
    until("the API seals by itself", async || {
        let periods = monthly_periods(&api).await;
        periods[3].1.then_some(())
    })
    .await;
    assert_eq!(monthly_periods(&api).await[2], (labels[2].clone(), false));
    let sealed = deployment.analytics(&["seal", "--json"]);
    assert_eq!(sealed.status.code(), Some(0));
    let said: Value = serde_json::from_slice(&sealed.stdout).unwrap();
    assert_eq!(said, json!({ "windows": 0, "standings": 0, "entries": 0 }));
    let jobs: Vec<String> =
        deployment.column("SELECT DISTINCT state FROM job WHERE kind = 'SEAL'").await;
    assert_eq!(jobs, ["DONE"]);
    // The API's, and the one by hand.
    let count = "SELECT CAST(COUNT(*) AS BIGINT) FROM job WHERE kind = 'SEAL'";
    assert!(deployment.number(count).await >= 2);
}

#[tokio::test]
async fn a_count_of_periods_that_is_not_accepted_is_told_what_is() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.data(CREATE, json!({ "input": { "slug": "b" } })).await;
    for (name, retain, code, says) in [
        ("daily", -1, "BAD_USER_INPUT", "0 to 1000000"),
        ("daily", 1_000_001, "LIMIT_EXCEEDED", "at most 1000000"),
        ("all", 3, "BAD_USER_INPUT", "without retain"),
    ] {
        let windows = json!([{ "name": name, "retain": retain }]);
        let create = json!({ "input": { "slug": "c", "windows": windows } });
        for (text, variables) in
            [(CREATE, create), (UPDATE, json!({ "slug": "b", "windows": windows }))]
        {
            let answer = api.ask(Some(api.token()), text, variables).await;
            assert_eq!(answer.codes(), [code], "{}", answer.body);
            assert!(answer.message().contains(says), "{}", answer.message());
        }
    }
}

#[tokio::test]
async fn what_comes_late_is_shown_by_the_nearest_score_that_the_window_can_hold() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let board = Board {
        slug: "b".to_owned(),
        direction: "HIGH_FIRST",
        policy: "SUM",
        tie_break: "EARLIEST",
        tick_ms: 1000,
        decimals: 0,
        min: 0,
        max: 10,
        zone: "UTC",
        shards: 1,
        windows: vec![Window::Daily],
    };
    crate::load::create_board(&api, &board).await;
    let send = async |score: i64, day: u32, accepted: u32| {
        let at = format!("2025-09-0{day}T12:00:00Z");
        let scores = json!([{ "member": "ann", "score": score, "at": at }]);
        let told = crate::load::submit_durably(&api, "b", scores).await;
        assert_eq!(told["accepted"], accepted, "{told}");
    };
    send(10, 3, 1).await;
    send(-10, 4, 1).await;
    send(10, 3, 0).await;
    retain(&api, &board, 0).await;
    wait_until_sealed(&api, &board).await;
    let score = async |day: u32| {
        let text = "query($period: String!) { board(slug: \"b\") { standings(window: \"daily\", period: $period) { rank(member: \"ann\") { score } } } }";
        let data = api.data(text, json!({ "period": format!("2025-09-0{day}") })).await;
        data["board"]["standings"]["rank"]["score"].clone()
    };
    send(10, 3, 1).await;
    // The range of "all" binds as ever.
    send(1, 3, 0).await;
    let stored = "SELECT score FROM sealed_entry ORDER BY score DESC LIMIT 1";
    for _ in 0..2 {
        assert_eq!((score(3).await, score(4).await), (json!("10"), json!("-10")));
        assert_eq!(deployment.number(stored).await, 20);
        check_diff(&deployment);
        let rebuilt = deployment.analytics(&["rebuild", "--board", "b"]);
        assert_eq!(rebuilt.status.code(), Some(0));
        redis::cmd("FLUSHALL").query_async::<()>(&mut deployment.redis().await).await.unwrap();
    }
    send(-10, 3, 1).await;
    assert_eq!(score(3).await, "10");
    assert_eq!(deployment.number(stored).await, 10);
    let corrections = "SELECT CAST(MAX(corrections) AS BIGINT) FROM sealed_period";
    assert_eq!(deployment.number(corrections).await, 2);
    crate::amendments::remove(&api, "b", "ann").await;
    assert_eq!((score(3).await, score(4).await), (Value::Null, Value::Null));
}

#[tokio::test]
async fn what_a_rolling_window_retains_is_read_from_redis_though_it_began_long_ago() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let api = Api::start(&deployment).await;
    let create = "mutation { createBoard(input: { slug: \"b\", windows: [{ name: \"7d\", retain: 1 }] }) { board { slug } } }";
    api.data(create, json!({})).await;
    let day_s = 86_400;
    let at = |days: i64| {
        jiff::Timestamp::from_second(jiff::Timestamp::now().as_second() - days * day_s)
            .unwrap()
            .to_string()
    };
    let score = |days: i64| json!({ "member": format!("m{days}"), "score": 1, "at": at(days) });
    let scores: Vec<Value> = (0..20).map(score).collect();
    assert_eq!(crate::load::submit_durably(&api, "b", json!(scores)).await["accepted"], 20);
    // The server may be at it too: then one of them begins again.
    until("it is sealed", async || {
        let sealed = deployment.analytics(&["seal"]);
        sealed.status.success().then_some(())
    })
    .await;
    let ask = "query($at: DateTime!) { board(slug: \"b\") { standings(window: \"7d\", at: $at) { source size period { sealed } } } }";
    // Today's and yesterday's lie in Redis, those before in the archive; each has seven days.
    for days in [0, 1, 2, 9] {
        let (source, sealed) = if days < 2 { ("LIVE", false) } else { ("ARCHIVE", true) };
        let expected = json!({ "source": source, "size": 7, "period": { "sealed": sealed } });
        let what = format!("{days} days ago: {expected}");
        until(&what, async || {
            let data = api.data(ask, json!({ "at": at(days) })).await;
            (data["board"]["standings"] == expected).then_some(())
        })
        .await;
    }
}
