//! Redis dies after random games with amendments: SQL answers as the rules say, and for segments,
//! rolling and decaying windows as Redis did.

use futures::stream::{self, StreamExt};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use ranking::window::Window;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::playthrough::{check, play};
use tests::api::submission::{create_board, submit};
use tests::clock::{DAY_MS, now_ms};
use tests::deployment::{Deployment, Sql};
use tests::extent;
use tests::model::game::{Game, Range, every_game, seeded};
use tests::model::history::History;
use tests::model::oracle::Board;
use tests::servers::redis_node::RedisNode;
use tests::wait::until;

/// The number of events for each board.
const EVENTS: usize = 60;

/// The number of boards that are played on side by side.
const BOARDS: usize = 4;

const SEGMENTS: [Option<&str>; 3] = [None, Some("region:eu"), Some("region:us")];

const SOURCE: &str = "
    query($slug: String!, $window: String!, $period: String!) { board(slug: $slug) {
        standings(of: { window: $window, period: $period }) { source period { sealed } }
    } }";

/// A decaying score is another one at each instant, though its rank is not.
const ENTRIES: &str = "
    query(
        $slug: String!, $window: String!, $at: DateTime!, $segment: String, $exact: Boolean!
    ) { board(slug: $slug) { standings(of: { window: $window, at: $at, segment: $segment }) {
        size
        top(first: 1000) { nodes {
            rank competition: rank(method: COMPETITION) dense: rank(method: DENSE)
            percentile score @include(if: $exact) member { key }
        } }
        page: top(first: 3, offset: 2) { nodes { rank member { key } } }
        last: top(last: 3) { nodes { rank member { key } } }
        entries(members: [\"m0\", \"m5\", \"gone\"]) { rank member { key } }
        neighbors(member: \"m4\", above: 2, below: 2) { rank member { key } }
    } } }";

/// A board beside each game's, with segments, rolling and decaying windows.
struct Regional {
    slug: String,
    windows: Vec<&'static str>,
}

impl Regional {
    /// Creates it with the rules of a game's board, and submits scores of the last days.
    async fn play(rng: &mut StdRng, api: &Api, board: &Board) -> Self {
        let slug = format!("regional-{}", board.slug);
        let mut windows = vec!["daily", "3d"];
        if (board.policy, board.direction) == ("SUM", "HIGH_FIRST") {
            windows.push("decay:1d");
        }
        let named: Vec<Value> = windows.iter().map(|name| json!({ "name": name })).collect();
        let mut input = board.input();
        input["slug"] = json!(slug);
        input["windows"] = json!(named);
        input["segmentBy"] = json!(["region"]);
        api.create_board(input).await;
        for _ in 0..3 {
            let score = |_| {
                let at_ms = now_ms() - rng.random_range(0..4 * DAY_MS);
                json!({
                    "member": format!("m{}", rng.random_range(0..12)),
                    "score": board.decimal(rng.random_range(-3..=4)),
                    "at": jiff::Timestamp::from_millisecond(at_ms).unwrap().to_string(),
                })
            };
            let scores: Vec<Value> = (0..20).map(score).collect();
            assert_eq!(submit(api, &slug, json!(scores)).await["accepted"], 20, "{board:?}");
        }
        windows.push("all");
        Self { slug, windows }
    }

    /// The answers of each window and segment.
    async fn read(&self, api: &Api, at_ms: i64) -> Vec<Value> {
        let at = jiff::Timestamp::from_millisecond(at_ms).unwrap().to_string();
        let mut answers = vec![];
        for window in &self.windows {
            for segment in SEGMENTS {
                let variables = json!({
                    "slug": self.slug, "window": window, "at": at, "segment": segment,
                    "exact": !window.starts_with("decay"),
                });
                answers.push(api.data(ENTRIES, variables).await);
            }
        }
        answers
    }
}

/// Plays a game, and on a regional board with the same rules.
async fn play_both(mut rng: StdRng, api: &Api, game: Game) -> (History, Regional) {
    create_board(api, &game.board).await;
    let regional = Regional::play(&mut rng, api, &game.board).await;
    let mut history = History::new(game.board);
    play(&mut rng, api, &mut history, &game.events).await;
    (history, regional)
}

/// Checks that what has not left Redis for good comes from SQL because Redis is away.
async fn check_sources(api: &Api, history: &History) {
    for ((window, period), _) in history.oracle().standings() {
        let variables = json!({
            "slug": history.board.slug, "window": window.to_string(), "period": period,
        });
        let standings = &api.data(SOURCE, variables).await["board"]["standings"];
        let is_sealed = standings["period"]["sealed"] == true;
        assert!(window != Window::All || !is_sealed, "{standings}");
        let expected = if is_sealed { "ARCHIVE" } else { "FALLBACK" };
        assert_eq!(standings["source"], expected, "{window} {period} of {}", history.board.slug);
    }
}

async fn check_games(sql: Sql, shards: u16) {
    let mut rng = seeded();
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("redis");
    std::fs::create_dir(&files).unwrap();
    let mut redis = RedisNode::start(&files, vec![]);
    let database_url = sql.new_database(dir.path()).await;
    let redis_url = format!("redis://127.0.0.1:{}", redis.port());
    let deployment = Deployment::elsewhere(dir, database_url, redis_url);
    let api = Api::start(&deployment).await;
    let member = |number: usize| {
        let region = ["eu", "us", "asia"][number % 3];
        json!({ "key": format!("m{number}"), "region": region })
    };
    api.upsert_members((0..12).map(member).collect::<Vec<_>>()).await;
    let games = every_game(&mut rng, shards, Range::Wide, EVENTS).into_iter();
    let games: Vec<_> = games.map(|game| (StdRng::seed_from_u64(rng.random()), game)).collect();
    let played: Vec<(History, Regional)> = stream::iter(games)
        .map(|(rng, game)| play_both(rng, &api, game))
        .buffer_unordered(BOARDS)
        .collect()
        .await;
    deployment.settle().await;
    let at_ms = now_ms();
    let mut live = vec![];
    for (_, regional) in &played {
        live.push(regional.read(&api, at_ms).await);
    }
    redis.kill();
    until("the probe knows", async || (!api.is_ready().await).then_some(())).await;
    for ((history, regional), live) in played.iter().zip(live) {
        check_sources(&api, history).await;
        check(&api, history).await;
        assert_eq!(regional.read(&api, at_ms).await, live, "{:?}", history.board);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_answers_as_the_rules_say_while_redis_is_away() {
    if let Some(sql) = extent::drawn(Sql::Sqlite) {
        check_games(sql, 4).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_answers_as_the_rules_say_while_redis_is_away() {
    if let Some(sql) = extent::drawn(Sql::Postgres) {
        check_games(sql, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_answers_as_the_rules_say_while_redis_is_away() {
    if let Some(sql) = Sql::mariadb() {
        check_games(sql, 4).await;
    }
}
