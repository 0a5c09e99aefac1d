//! The C# client: its word game on a bad line, and scores that the server refuses.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use tests::api::Api;
use tests::api::friends::change_friends;
use tests::api::metrics::metrics_of;
use tests::api::submission::submit;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::ADD_FRIEND;
use tests::servers::mono::{Program, compile};
use tests::servers::proxy::{Ending, Mode, Point, Proxy};
use tests::wait::until;

const BOARD: &str = "words";

/// The time after which the game gives up on an answer: that of SQL fits in, mostly.
const TIMEOUT_SECONDS: &str = "2";

/// The points of letters, as the game has them.
const LETTERS: &str = "etaoinsrhldcumfpgwybvkxjqz";

/// The word game of ann, on a line that may fail.
struct World {
    api: Api,
    proxy: Proxy,
    token: String,
    dir: TempDir,
}

impl World {
    async fn new() -> Self {
        Self::with_settings(&[]).await
    }

    async fn with_settings(settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::Builder::new().prefix("laurel-csharp-").tempdir().unwrap();
        compile_game(dir.path());
        let deployment = Deployment::new(Sql::any(), Redis::Own).await;
        let api = Api::start_with_settings(&deployment, settings).await;
        let rules = json!({
            "slug": BOARD, "selfSubmit": true, "maxScore": "1000000",
            "windows": [{ "name": "daily" }],
        });
        api.create_board(rules).await;
        api.upsert_members(json!([{ "key": "ann", "name": "Ann Ä" }, { "key": "bob" }])).await;
        let token = deployment.new_token(&["--scope", "submit,friends", "--member", "ann"]).await;
        let port = api.url().rsplit(':').next().unwrap().parse().unwrap();
        Self { api, proxy: Proxy::before(port).await, token, dir }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("queue.json")
    }

    /// Starts the game with a token; the file of its queue stays.
    fn game_with(&self, token: &str) -> Program {
        let server = format!("http://127.0.0.1:{}", self.proxy.port());
        let file = self.file().to_str().unwrap().to_owned();
        let arguments = [&server, BOARD, "ann", &file, TIMEOUT_SECONDS];
        Program::start(&self.dir.path().join("WordGame.exe"), &arguments, token)
    }

    /// Starts the game when so many scores wait.
    async fn game(&self, waiting: usize) -> Program {
        let mut game = self.game_with(&self.token);
        assert_eq!(game.printed("waiting: ", 1).await, waiting.to_string());
        game
    }

    /// Ann's score in all.
    async fn sum(&self) -> u64 {
        let query = "query($board: String!) {
            board(slug: $board) { standings { entry(member: \"ann\") { score } } }
        }";
        let data = self.api.data(query, json!({ "board": BOARD })).await;
        let score = data["board"]["standings"]["entry"]["score"].as_str();
        score.map_or(0, |score| score.parse().unwrap())
    }
}

/// Compiles the client as a library, and the game on top of it.
fn compile_game(dir: &Path) -> PathBuf {
    let (library, game) = (dir.join("Laurel.dll"), dir.join("WordGame.exe"));
    compile(&["Laurel"], &[], &library);
    compile(&["Example"], &[&format!("-r:{}", library.display())], &game);
    game
}

fn points(word: &str) -> u64 {
    word.chars().map(|letter| LETTERS.find(letter).unwrap() as u64 + 1).sum()
}

/// Plays a word; returns its points once its score is in the file.
async fn play(game: &mut Program, word: &str) -> u64 {
    game.write(&[word]).await;
    game.printed(&format!("{word}: "), 1).await;
    points(word)
}

#[tokio::test]
async fn each_score_of_a_game_counts_once_on_a_bad_line() {
    let world = World::new().await;
    let mut sum = played_offline(&world).await;
    assert_eq!(world.sum().await, sum);
    for point in [Point::BeforeRequest, Point::BeforeReply] {
        sum += killed_on_the_way(&world, point).await;
        assert_eq!(world.sum().await, sum, "{point:?}");
    }
    sum += played_on_a_bad_line(&world).await;
    assert_eq!(world.sum().await, sum);
    sum += killed_between_writes(&world).await;
    assert_eq!(world.sum().await, sum);
    shows_the_table(&world, sum).await;
}

/// Without a network the game goes on, is killed, and sends its scores at the next start.
async fn played_offline(world: &World) -> u64 {
    world.proxy.set(Mode::Refused);
    let mut game = world.game(0).await;
    let sum = play(&mut game, "hello").await + play(&mut game, "world").await;
    game.kill().await;
    let mut game = world.game(2).await;
    world.proxy.set(Mode::Pass);
    game.printed("counted: ", 2).await;
    game.end().await;
    sum
}

/// The game is killed while its request is on the way, or the answer to it.
async fn killed_on_the_way(world: &World, point: Point) -> u64 {
    let mut game = world.game(0).await;
    let (sum, held) =
        tokio::join!(play(&mut game, "laurel"), world.proxy.hold(&["submitScores"], point));
    game.kill().await;
    drop(held);
    let mut game = world.game(1).await;
    assert_eq!(game.printed("counted: ", 1).await, sum.to_string());
    game.end().await;
    sum
}

/// Answers are lost, connections reset, bytes late or never there.
async fn played_on_a_bad_line(world: &World) -> u64 {
    let mut game = world.game(0).await;
    let lines = [
        (Mode::LostReplies(2), ["alpha", "beta"]),
        (Mode::ResetReplies(2), ["gamma", "delta"]),
        (Mode::Bytes, ["epsilon", "zeta"]),
        (Mode::HalfOpen, ["eta", "theta"]),
        (Mode::Frozen, ["iota", "kappa"]),
    ];
    let (mut sum, mut count) = (0, 0);
    for (mode, words) in lines {
        world.proxy.set(mode);
        if [Mode::HalfOpen, Mode::Frozen].contains(&mode) {
            sum += play(&mut game, words[0]).await + play(&mut game, words[1]).await;
            count += 2;
            let is_sent = || fs::read_to_string(world.file()).unwrap().contains("\"sentAt\":\"");
            until("a score is sent", async || is_sent().then_some(())).await;
            world.proxy.set(Mode::Pass);
        } else {
            for word in words {
                sum += play(&mut game, word).await;
                count += 1;
                game.printed("counted: ", count).await;
            }
        }
        game.printed("counted: ", count).await;
        world.proxy.end_all(Ending::Reset);
    }
    game.end().await;
    sum
}

/// The game is killed while it writes scores to its file, without a network.
async fn killed_between_writes(world: &World) -> u64 {
    const WORDS: usize = 40;
    world.proxy.set(Mode::Refused);
    let mut game = world.game(0).await;
    let words = vec!["bay"; WORDS];
    game.write(&words).await;
    game.printed("bay: ", WORDS / 2).await;
    game.kill().await;
    let mut game = world.game_with(&world.token);
    let waiting: usize = game.printed("waiting: ", 1).await.parse().unwrap();
    assert!((WORDS / 2..=WORDS).contains(&waiting), "{waiting}");
    world.proxy.set(Mode::Pass);
    game.printed("counted: ", waiting).await;
    game.end().await;
    points("bay") * waiting as u64
}

/// The typed reads: a page of the top, neighbors, friends and the own entry.
async fn shows_the_table(world: &World, sum: u64) {
    let mut game = world.game(0).await;
    let scores = json!([{ "member": "bob", "score": 5 }, { "member": "cid", "score": 4 }]);
    submit(&world.api, BOARD, scores).await;
    change_friends(&world.api, ADD_FRIEND, ("ann", "bob")).await;
    game.write(&["table"]).await;
    assert_eq!(game.printed("top: ", 1).await, format!("1. Ann Ä {sum}, 2. bob 5, 3. cid 4"));
    assert_eq!(game.printed("near you: ", 1).await, format!("1. Ann Ä {sum}, 2. bob 5"));
    assert_eq!(game.printed("friends: ", 1).await, format!("1. Ann Ä {sum}, 2. bob 5"));
    assert_eq!(game.printed("you: ", 1).await, format!("1. {sum}"));
    game.end().await;
}

/// A score in the file of a queue.
fn queued(board: &str, score: u64, sent_at: Option<&str>) -> Value {
    let event_id = format!("{board}-{score}");
    let score = json!({ "member": "ann", "score": score.to_string(), "eventId": event_id });
    json!({ "board": board, "sentAt": sent_at, "score": score })
}

fn write_queue(world: &World, scores: &[Value]) {
    let queue = json!({ "version": 1, "scores": scores });
    fs::write(world.file(), queue.to_string()).unwrap();
}

#[tokio::test]
async fn a_full_queue_is_sent_in_order_and_in_the_parts_that_the_server_takes() {
    const SCORES: u64 = 1000;
    // A request of a hundred scores is longer, and all of them are more than may be saved up.
    let limits = [
        ("LAUREL_BODY_BYTES_MAX", "4096"),
        ("LAUREL_WRITE_BURST", "1000"),
        ("LAUREL_WRITE_RATE", "50"),
    ];
    let world = World::with_settings(&limits).await;
    let mut scores: Vec<Value> = (1..=SCORES).map(|score| queued(BOARD, score, None)).collect();
    scores[200] = queued("nowhere", 201, None);
    scores[600] = queued(BOARD, 999_999, None);
    write_queue(&world, &scores);
    world.proxy.set(Mode::Refused);
    let mut game = world.game(1000).await;
    game.write(&["one"]).await;
    assert_eq!(game.printed("not taken: ", 1).await, "QUEUE_FULL");
    world.proxy.set(Mode::Pass);
    game.printed(&format!("counted: {SCORES}"), 1).await;
    let answers = game
        .end()
        .await
        .into_iter()
        .filter(|line| line.starts_with("counted: ") || line.starts_with("REJECTED "));
    let expected = (1..=SCORES).map(|score| match score {
        201 => "REJECTED NOT_FOUND: 201".to_owned(),
        601 => "REJECTED SCORE_OUT_OF_RANGE: 999999".to_owned(),
        _ => format!("counted: {score}"),
    });
    assert_eq!(answers.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    assert_eq!(world.sum().await, SCORES * (SCORES + 1) / 2 - 201 - 601);
    let metrics = metrics_of(&world.api).await;
    for code in ["RATE_LIMITED", "LIMIT_EXCEEDED"] {
        let refused = metrics[&format!("laurel_graphql_errors_total{{code=\"{code}\"}}")];
        assert!(refused > 0.0, "{code}");
    }
}

#[tokio::test]
async fn a_score_waits_for_a_token_that_may_send_it() {
    let world = World::new().await;
    let bob = world.api.deployment().new_token(&["--scope", "submit", "--member", "bob"]).await;
    let mut game = world.game_with("wrong");
    play(&mut game, "laurel").await;
    assert_eq!(game.printed("not sent: ", 1).await, "UNAUTHENTICATED");
    game.end().await;
    let mut game = world.game_with(&bob);
    assert_eq!(game.printed("waiting: ", 1).await, "1");
    assert_eq!(game.printed("not sent: ", 1).await, "FORBIDDEN");
    game.end().await;
    let mut game = world.game(1).await;
    assert_eq!(game.printed("counted: ", 1).await, points("laurel").to_string());
    game.end().await;
    assert_eq!(world.sum().await, points("laurel"));
}

#[tokio::test]
async fn a_score_that_may_count_twice_is_handed_over() {
    let world = World::new().await;
    let old = Some("2025-09-03T12:00:00.000Z");
    write_queue(&world, &[queued(BOARD, 7, old), queued(BOARD, 8, None)]);
    let mut game = world.game(2).await;
    assert_eq!(game.printed("counted: ", 1).await, "8");
    assert!(game.end().await.contains(&"UNKNOWN ID_FORGOTTEN: 7".to_owned()));
    assert_eq!(world.sum().await, 8);
}

#[tokio::test]
async fn a_file_that_is_no_queue_is_left_as_it_is() {
    let dir = tempfile::Builder::new().prefix("laurel-csharp-").tempdir().unwrap();
    let game = compile_game(dir.path());
    let file = dir.path().join("queue.json");
    let another = json!({ "version": 2, "scores": [] }).to_string();
    for content in ["", "{}", "[1]", r#"{"version":1,"scores":[{"board":"words"}]}"#, &another] {
        fs::write(&file, content).unwrap();
        let arguments = ["http://127.0.0.1:1", BOARD, "ann", file.to_str().unwrap()];
        let error = Program::start(&game, &arguments, "").failure().await;
        assert!(error.contains("InvalidDataException"), "{content}: {error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
    }
}
