//! Heavy requests take turns, and light ones never wait for them.

use futures::future::{join, join_all};

use tests::attack::boards::{self, key};
use tests::attack::request::{Attack, Reply};
use tests::attack::{Attacked, UNRATED};
use tests::wait::until;

/// Room for four heavy requests.
const FEW: (&str, &str) = ("LAUREL_REQUESTS_WAITING_MAX", "8");

/// The threads of heavy requests get what other tests leave of the processors.
const PATIENT: (&str, &str) = ("LAUREL_QUERY_TIMEOUT_MS", "120000");

/// A page of the board, with a comment so that it is a text of its own of so many bytes.
fn page(number: usize, bytes: usize) -> Attack {
    let comment = format!("#{number:0>bytes$}\\n");
    let text = "{board(slug:\"big\"){standings{top(first:100){nodes{rank}}}}}";
    Attack::raw("a page", format!("{{\"query\":\"{comment}{}\"}}", text.replace('"', "\\\"")))
}

/// Sends many requests at once.
async fn send_all(server: &Attacked, attacks: Vec<Attack>) -> Vec<Reply> {
    let sent = attacks.iter().map(|attack| async { server.send(attack).await.unwrap() });
    join_all(sent).await
}

/// Scores among equals, whose text does not tell how many of them are counted.
fn scores(number: usize) -> Attack {
    let text = format!("{{board(slug:\"tie\"){{standings{{{}}}}}}}", score_fields(number));
    Attack::query("scores among equals", &text)
}

fn score_fields(number: usize) -> String {
    let field = |of| format!("a{of}:scoreFor(percentile:{}.{of:0>2}{number:0>4})", 30 + of);
    (0..40).map(field).collect()
}

/// The same for a subscription.
fn followed(number: usize) -> Attack {
    let nodes = format!("nodes{{standings{{{}}}}}", score_fields(number));
    let text = format!("subscription{{top(board:\"tie\",first:1){{{nodes}}}}}");
    Attack::query("followed scores among equals", &text)
}

/// Friends, whose number the text does not tell either.
fn friends(number: usize) -> Attack {
    let fields: String = (0..10)
        .map(|of| format!("a{of}:friends(member:\"{}\",first:1{number}){{totalCount}}", key(of)))
        .collect();
    let text = format!("{{board(slug:\"tie\"){{standings{{{fields}}}}}}}");
    Attack::query("the friends of many", &text)
}

/// The first entries, so many of them.
fn first(count: usize) -> Attack {
    let text =
        format!("{{board(slug:\"tie\"){{standings{{top(first:{count}){{nodes{{rank}}}}}}}}}}");
    Attack::query("the first ones", &text)
}

fn is_refused(reply: &Reply) -> bool {
    let is_busy = reply.status == 503;
    assert!(is_busy || reply.codes().is_empty(), "{} {}", reply.status, reply.shown());
    assert!(!is_busy || reply.retry_after >= Some(1), "when to try again: {}", reply.shown());
    is_busy
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_requests_are_refused_beside_many_others_and_light_ones_never() {
    let server = Attacked::start_with(&[&UNRATED[..], &[FEW, PATIENT]].concat()).await;
    boards::create(&server.api).await;
    boards::fill(server.api.deployment(), "big").await;
    let mut round = 0;
    until("a heavy request is refused", async || {
        round += 1;
        let number = |of: usize| round * 100 + of;
        let heavy = (0..30).map(|of| page(number(of), 6000)).collect();
        let light = (30..36).map(|of| page(number(of), 100)).collect();
        let (heavy, light) = join(send_all(&server, heavy), send_all(&server, light)).await;
        assert!(!light.iter().any(is_refused));
        assert!(heavy.iter().filter(|reply| !is_refused(reply)).count() >= 4);
        heavy.iter().any(is_refused).then_some(())
    })
    .await;
    // Those with a token are known, and each of the others finds a place now.
    let known = (40..60).map(|of| page(of, 6000).as_admin()).collect();
    assert!(!send_all(&server, known).await.iter().any(is_refused));
    for of in 60..70 {
        assert!(!is_refused(&server.send(&page(of, 6000)).await.unwrap()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_requests_of_a_client_that_goes_on_to_spend_are_heavy() {
    // Twenty points become good in a second.
    let rated = [("LAUREL_READ_RATE", "400"), ("LAUREL_READ_BURST", "20000000"), FEW, PATIENT];
    let server = Attacked::start_with(&rated).await;
    boards::create(&server.api).await;
    boards::fill(server.api.deployment(), "big").await;
    let ranks = |round: usize| {
        let rank = |of: usize| {
            let member = key(round * 100 + of);
            let text = format!(
                "{{board(slug:\"big\"){{standings{{entry(member:\"{member}\"){{rank}}}}}}}}"
            );
            Attack::query("a rank", &text)
        };
        (0..30).map(rank).collect()
    };
    assert!(!is_refused(&server.send(&page(1, 6000)).await.unwrap()));
    let mut round = 0;
    until("a short request is refused", async || {
        round += 1;
        send_all(&server, ranks(round)).await.iter().any(is_refused).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_turn_out_heavy_go_on_in_turns() {
    let server = Attacked::start_with(&[&UNRATED[..], &[FEW, PATIENT]].concat()).await;
    boards::create(&server.api).await;
    boards::fill(server.api.deployment(), "tie").await;
    boards::befriend(server.api.deployment()).await;
    let mut round = 0;
    for heavy in [scores, friends] {
        until("a request that turned out heavy is refused", async || {
            round += 1;
            let heavy = (0..30).map(|of| heavy(round * 30 + of)).collect();
            let light = (1..7).map(|of| first(10 * (round % 9) + of)).collect();
            let (heavy, light) = join(send_all(&server, heavy), send_all(&server, light)).await;
            assert!(!light.iter().any(is_refused));
            assert!(heavy.iter().filter(|reply| !is_refused(reply)).count() >= 4);
            heavy.iter().any(is_refused).then_some(())
        })
        .await;
    }
    let known = (0..8).map(|of| scores(9000 + of).as_admin()).collect();
    assert!(!send_all(&server, known).await.iter().any(is_refused));
    // So do subscriptions.
    until("a subscription that turned out heavy is refused", async || {
        round += 1;
        let heavy = (0..30).map(|of| followed(round * 30 + of)).collect();
        let replies = send_all(&server, heavy).await;
        replies.iter().any(|reply| reply.codes() == ["UNAVAILABLE"]).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_wait_for_a_turn_leave_the_room_to_those_in_turns_and_to_light_ones() {
    // Room for four light requests.
    let room = ("LAUREL_COST_UNDER_WAY_MAX", "40000");
    let server = Attacked::start_with(&[&UNRATED[..], &[room, PATIENT]].concat()).await;
    boards::create(&server.api).await;
    for board in ["big", "tie"] {
        boards::fill(server.api.deployment(), board).await;
    }
    let turning = (0..12).map(scores);
    // These begin in turns, and wait for room there.
    let long = (0..12).map(|number| page(number, 6000));
    let light = (0..12).map(|number| first(10 + number));
    let all = turning.chain(long).chain(light).collect();
    for reply in send_all(&server, all).await {
        assert!(!is_refused(&reply));
    }
}
