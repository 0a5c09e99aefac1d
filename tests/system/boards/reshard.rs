//! Boards that move to other numbers of shards beside players: nothing is lost, doubled or
//! misplaced.

use std::process::Stdio;
use std::sync::Arc;

use rand::seq::SliceRandom;
use ranking::window::Window;
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use tests::api::Api;
use tests::api::listing::{Listing, Way};
use tests::api::playthrough::{check, play_batch};
use tests::api::submission::{create_board, submit_durably, submit_events};
use tests::api::window::{set_windows, wait_until_ready};
use tests::boards::busy::{busy_board, create_busy};
use tests::boards::corruption::CorruptedBoard;
use tests::clock::now_ms;
use tests::deployment::{Deployment, Redis, Sql};
use tests::extent;
use tests::jobs::analytics::figures;
use tests::jobs::archive::{age, archive};
use tests::jobs::diff::check_diff;
use tests::jobs::reshard::{begin, check_anew, end, reshard, shards_of};
use tests::jobs::seal::seal;
use tests::model::game::{Game, Range, every_game, seeded};
use tests::model::history::History;
use tests::model::oracle::{Board, Event};
use tests::servers::program::signal;
use tests::wait::until;

/// The numbers of shards that boards move to.
const MOVES: [u16; 3] = [16, 4, 1];

/// Plays games in which a board moves again and again; every verdict on the way and all standings
/// at the end must be those of the oracle.
async fn check_games(sql: Sql) {
    let mut rng = seeded();
    let deployment = Deployment::new(sql, Redis::Own).await;
    let apis = [Api::start(&deployment).await, Api::start(&deployment).await];
    let mut games = every_game(&mut rng, 1, Range::Wide, 600);
    games.extend(every_game(&mut rng, 1, Range::Narrow, 600));
    games.shuffle(&mut rng);
    for game in games.iter().take(extent::boards([1, 3])) {
        create_board(&apis[0], &game.board).await;
        let mut history = History::new(game.board.clone());
        let slug = game.board.slug.clone();
        let mut batches = game.events.chunks(5).enumerate();
        for shards in MOVES {
            for (number, batch) in batches.by_ref().take(4) {
                play_batch(&mut rng, &apis[number % 2], &mut history, batch).await;
            }
            let before = history.items().len();
            let mut moving = begin(&deployment, &slug, shards);
            let mut beside = 0;
            while moving.try_wait().unwrap().is_none() {
                let Some((number, batch)) = batches.next() else {
                    break;
                };
                play_batch(&mut rng, &apis[number % 2], &mut history, batch).await;
                beside += 1;
            }
            println!("{slug} to {shards}: {} beside {beside} steps", end(moving));
            assert_eq!(shards_of(&deployment, &slug).await, i64::from(shards));
            check(&apis[0], &history).await;
            // Ids from before the move, of events that count and that do not.
            let again = &game.events[..before.min(30)];
            for batch in again.chunks(5) {
                play_batch(&mut rng, &apis[1], &mut history, batch).await;
            }
            check(&apis[1], &history).await;
            check_diff(&deployment);
        }
        check_anew(&deployment, &apis[0], &history).await;
    }
}

/// The diff is stopped at any moment, and goes on when the board has moved.
#[tokio::test]
async fn a_diff_that_a_move_overtakes_begins_again() {
    let deployment = Deployment::new(Sql::Postgres, Redis::Own).await;
    let api = Api::start(&deployment).await;
    create_board(&api, &busy_board()).await;
    let score = |number: usize| json!({ "member": format!("m{number}"), "score": number });
    submit_durably(&api, "busy", (0..500).map(score).collect()).await;
    for (round, shards) in MOVES.into_iter().cycle().take(5).enumerate() {
        let mut command = deployment.analytics_command(&["diff", "--json", "--full"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let diff = command.spawn().unwrap();
        let running = "SELECT count(*) FROM job WHERE kind = 'DIFF' AND state = 'RUNNING'";
        until("a diff is running", async || (deployment.number(running).await == 1).then_some(()))
            .await;
        sleep(Duration::from_millis(40 * round as u64)).await;
        signal("STOP", diff.id());
        reshard(&deployment, "busy", shards);
        signal("CONT", diff.id());
        assert_eq!(end(diff)["findings"], json!([]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_that_moves_is_what_it_would_be_on_sqlite() {
    if let Some(sql) = extent::drawn(Sql::Sqlite) {
        check_games(sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_that_moves_is_what_it_would_be_on_postgres() {
    if let Some(sql) = extent::drawn(Sql::Postgres) {
        check_games(sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_that_moves_is_what_it_would_be_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_games(sql).await;
    }
}

/// Cursors name a place, and windows keep their generation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_walk_goes_on_over_a_move() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    let board = busy_board();
    create_busy(&api, &board).await;
    let event = |number: usize| Event {
        member: format!("m{number}"),
        score: 1 + number as i64 / 7,
        at_ms: now_ms() - 1000 * number as i64,
        id: None,
        metadata: None,
    };
    let events: Vec<Event> = (0..60).map(event).collect();
    submit_events(&api, &board, &events).await;
    let listing =
        Listing { slug: "busy".to_owned(), window: Window::All, period: "all".to_owned() };
    let before = listing.walk(&api, 7, Way::Forward).await;
    let text =
        "query($after: String) { board(slug: \"busy\") { standings { top(first: 7, after: $after) {
        pageInfo { hasNextPage endCursor } nodes { rank member { key } } } } } }";
    let (mut cursor, mut walked, mut moves) =
        (Value::Null, vec![], [16, 2, 8, 1].into_iter().cycle());
    loop {
        let data = api.data(text, json!({ "after": cursor })).await;
        let top = &data["board"]["standings"]["top"];
        for node in top["nodes"].as_array().unwrap() {
            let key = node["member"]["key"].as_str().unwrap().to_owned();
            walked.push((node["rank"].as_i64().unwrap(), key));
        }
        if top["pageInfo"]["hasNextPage"] == false {
            break;
        }
        cursor = top["pageInfo"]["endCursor"].clone();
        if walked.len().is_multiple_of(14) {
            reshard(&deployment, "busy", moves.next().unwrap());
        }
    }
    let expected: Vec<(i64, String)> =
        before.into_iter().map(|row| (row.rank, row.member)).collect();
    assert_eq!(walked, expected);
}

/// Moves that are impossible, or impossible now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_cannot_be_is_refused() {
    let mut rng = seeded();
    let deployment: Arc<Deployment> = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    let Game { board, events } = every_game(&mut rng, 2, Range::Wide, 20).swap_remove(0);
    create_board(&api, &board).await;
    submit_events(&api, &board, &events[..10]).await;
    let refused = |arguments: &[&str], words: &str| {
        let rebuild = ["rebuild", "--board", &*board.slug];
        let output = deployment.analytics(&[&rebuild, arguments].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_ne!(output.status.code(), Some(0));
        assert!(error.contains(words), "{error}");
    };
    refused(&["--shards", "3"], "expected a power of two from 1 to 16");
    refused(&["--shards", "32"], "expected a power of two from 1 to 16");
    refused(&["--shards", "0"], "expected a power of two from 1 to 16");
    refused(&["--shards", "4", "--window", "daily"], "cannot be used with");
    let told = deployment.analytics(&["rebuild", "--board", &board.slug, "--shards", "2"]);
    let said = String::from_utf8_lossy(&told.stdout);
    assert!(told.status.success() && said.contains("2 shards already"), "{said}");

    // Seals before and after a move: sealed periods stay where they are.
    seal(&api, &board).await;
    reshard(&deployment, &board.slug, 8);
    submit_events(&api, &board, &events[10..]).await;
    check_diff(&deployment);
    age(&deployment, 400).await;
    let archived = archive(&deployment, &["--board", &board.slug]);
    assert!(archived["skipped"].to_string().contains("another number of shards"), "{archived}");

    let other = Board { slug: "archived".to_owned(), ..board.clone() };
    create_board(&api, &other).await;
    submit_events(&api, &other, &events).await;
    seal(&api, &other).await;
    age(&deployment, 400).await;
    archive(&deployment, &["--board", "archived"]);
    let output = deployment.analytics(&["rebuild", "--board", "archived", "--shards", "8"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("are archived"), "{error}");
}

/// Events from before a move count for every reader of history: the diff and its proof, a repair,
/// what-if, a window that is added, and a window that is rebuilt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_board_had_before_a_move_counts() {
    for sql in Sql::all() {
        let mut board = CorruptedBoard::new(sql, 1).await;
        reshard(&board.deployment, "b", 8);
        let score = |member: i64| {
            json!({
                "member": format!("m{member:02}"), "score": 7, "at": "2026-04-01T12:00:00Z",
            })
        };
        submit_durably(&board.api, "b", (0..20).map(score).collect()).await;
        reshard(&board.deployment, "b", 2);
        submit_durably(&board.api, "b", (10..50).map(score).collect()).await;
        let proven = |found: &Value| {
            let proven = &found["proven"];
            (proven["by_digest"].clone(), proven["by_history"].clone())
        };
        let (code, found) = board.run(&["diff"]);
        assert_eq!((code, proven(&found)), (0, (json!(0), json!(2))), "{found}");
        let (code, found) = board.run(&["diff"]);
        assert_eq!((code, proven(&found)), (0, (json!(2), json!(0))), "{found}");
        let whole = board.picture().await;

        // An event of the first layout, in a partition that now has no members or other ones.
        let change = "UPDATE score_event SET score = score + 1 WHERE member = 'm21' AND seq = \
            (SELECT MIN(seq) FROM score_event WHERE member = 'm21' AND generation = 1)";
        board.sql(change).await;
        let (code, found) = board.run(&["diff"]);
        assert_eq!(code, 3, "{found}");
        board.sql(&change.replace("+ 1", "- 1")).await;
        let (code, found) = board.run(&["diff"]);
        assert_eq!((code, &found["found"]), (0, &json!(0)), "{found}");

        let (key, double) = board.entry("m05", "all:all").await;
        let () = board.redis(&["ZREM", &key, "m05"]).await;
        board.set(&key, double, "nobody").await;
        board
            .spoil(&[
                "UPDATE standing SET score = score + 1 WHERE member = 'm15'",
                "DELETE FROM standing WHERE member = 'm25'",
            ])
            .await;
        let (code, found) = board.run(&["diff", "--repair"]);
        assert_eq!((code, &found["left"]), (0, &json!(0)), "{found}");
        assert_eq!(found["found"], 4, "{found}");
        board.is_as(&whole).await;

        let (_, found) = board.run(&["what-if", "--board", "b", "--policy", "BEST"]);
        assert_eq!(found["entries"], 50, "{found}");
        assert_eq!(found["top"][0]["member"], "m39", "{found}");

        let windows = ["daily", "monthly", "weekly"];
        set_windows(&board.api, "b", &windows).await;
        wait_until_ready(&board.api, "b", &windows).await;
        check_diff(&board.deployment);
        let whole = board.picture().await;
        let (day, _) = board.entry("m05", "daily:2026-02-10").await;
        let () = board.redis(&["DEL", &day]).await;
        board.spoil(&["DELETE FROM standing WHERE member = 'm25'"]).await;
        figures(&board.deployment, &["rebuild", "--board", "b", "--window", "daily"]);
        figures(&board.deployment, &["rebuild", "--board", "b"]);
        let (code, found) = board.run(&["diff", "--full"]);
        assert_eq!((code, &found["found"]), (0, &json!(0)), "{found}");
        let now = board.picture().await;
        for (key, held) in whole.iter().filter(|(key, _)| key.starts_with("laurel")) {
            assert_eq!(now.get(key), Some(held), "{key}");
        }
    }
}
