//! Positions of topics and streams in the history: scores without ids count once for good.

use std::process::Command;

use async_nats::jetstream::stream;
use serde_json::json;

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::queue::{Ingest, Kind, Queue, Sent, ingest_from};
use tests::servers::program::signal;
use tests::servers::redis_cluster::free_port;

use super::game::{Game, STEPS, crash_at, has_tansu, is_wanted, run_once};

/// The brokers whose messages have places.
fn kinds() -> Vec<Kind> {
    match (has_tansu(), is_wanted()) {
        (true, _) => vec![Kind::Kafka],
        (false, true) => vec![Kind::Nats, Kind::Kafka, Kind::RabbitMqStream],
        (false, false) => vec![Kind::Nats, Kind::Kafka],
    }
}

/// The address of a queue, with a source whose positions the server keeps.
fn from(queue: &Queue) -> String {
    format!("{}&source=scores", queue.url())
}

/// The address with another group or consumer, which begins at the first message.
fn set_back(queue: &Queue, name: &str) -> String {
    from(queue).replace("=laurel", &format!("={name}"))
}

#[tokio::test]
async fn a_score_without_an_id_counts_once_whatever_step_the_program_dies_at() {
    for kind in kinds() {
        let deployment = Deployment::new(Sql::any(), Redis::Private).await;
        let api = Api::start(&deployment).await;
        let queue = Queue::start(kind, &deployment).await;
        Game::create_board(&api).await;
        let game = Game::without_ids(1000);
        queue.publish(&game.messages).await;
        let ingest = |from: &str| ingest_from(from, &deployment, api.url(), api.token());
        for (number, step) in STEPS.into_iter().enumerate() {
            crash_at(step, &deployment, ingest(&from(&queue))).await;
            if number == 2 {
                deployment.flush_redis().await;
            }
        }
        run_once(&deployment, ingest(&from(&queue))).await;
        game.check(&api, &queue).await;
        // Set back to the first message, and Redis emptied before.
        deployment.flush_redis().await;
        let told = run_once(&deployment, ingest(&set_back(&queue, "other"))).await;
        assert!(told.contains(" 0 scores applied"), "{kind:?}: {told}");
        // The program writes no second letter for a score that was refused and is settled.
        game.check_scores(&api).await;
    }
}

#[tokio::test]
async fn a_message_that_refuses_its_request_takes_no_other_with_it() {
    for kind in kinds() {
        let deployment = Deployment::new(Sql::any(), Redis::Private).await;
        let api = Api::start(&deployment).await;
        Game::create_board(&api).await;
        let queue = Queue::start(kind, &deployment).await;
        let score = |member: &str| {
            let score = json!({ "board": "b", "member": member, "score": 1 });
            Sent::from(score.to_string())
        };
        let mut messages = vec![score("ann"); 200];
        // The server reads no request with a string of that length.
        messages[120] = score(&"a".repeat(3000));
        queue.publish(&messages).await;
        let ingest = ingest_from(&from(&queue), &deployment, api.url(), api.token());
        let told = run_once(&deployment, ingest).await;
        assert!(told.contains("with 199 scores applied"), "{kind:?}: {told}");
        assert_eq!(queue.letters().await.len(), 1, "{kind:?}");
    }
}

#[tokio::test]
async fn two_programs_that_take_the_same_messages_write_each_once() {
    for kind in kinds() {
        let deployment = Deployment::new(Sql::any(), Redis::Private).await;
        let port = free_port();
        let (address, to) = (format!("127.0.0.1:{port}"), format!("http://127.0.0.1:{port}"));
        let start = async || Api::start_with(&deployment, &["--listen", &address]).await;
        let api = start().await;
        let queue = Queue::start(kind, &deployment).await;
        Game::create_board(&api).await;
        let game = Game::without_ids(3000);
        queue.publish(&game.messages).await;
        let token = api.token().to_owned();
        let start_ingest = |from: &str, batch: &str| {
            let mut command: Command = ingest_from(from, &deployment, &to, &token);
            command.arg("--once").env("LAUREL_INGEST_BATCH", batch);
            Ingest::start(&deployment, command)
        };
        // Each believes that all partitions are its own. One wakes up late.
        let running = [
            start_ingest(&from(&queue), "37"),
            start_ingest(&set_back(&queue, "second"), "100"),
            start_ingest(&set_back(&queue, "third"), "211"),
        ];
        signal("STOP", running[0].pid());
        // The server dies, and comes again.
        signal("KILL", api.pid());
        drop(api);
        let api = start().await;
        signal("CONT", running[0].pid());
        for process in running {
            let (status, log) = process.wait().await;
            assert!(status.success(), "{kind:?}: {log}");
        }
        game.check(&api, &queue).await;
    }
}

#[tokio::test]
async fn a_stream_or_a_topic_that_is_made_anew_counts_everything() {
    for kind in kinds() {
        let deployment = Deployment::new(Sql::any(), Redis::Private).await;
        let api = Api::start(&deployment).await;
        Game::create_board(&api).await;
        let queue = Queue::start(kind, &deployment).await;
        let score: Sent = json!({ "board": "b", "member": "ann", "score": 1 }).to_string().into();
        let ingest = |from: &str| ingest_from(from, &deployment, api.url(), api.token());
        queue.publish(&vec![score.clone(); 20]).await;
        run_once(&deployment, ingest(&from(&queue))).await;
        let address = match kind {
            // Its time of creation is part of the source.
            Kind::Nats => {
                let context = queue.jetstream().await;
                context.delete_stream("SCORES").await.unwrap();
                let (name, subjects) = ("SCORES".to_owned(), vec!["scores.>".to_owned()]);
                let config = stream::Config { name, subjects, ..Default::default() };
                context.create_stream(config).await.unwrap();
                queue.publish(&vec![score; 15]).await;
                from(&queue)
            }
            // Other clients cannot tell one topic or stream from another of its name: the operator
            // does.
            _ => set_back(&queue, "other").replace("=scores", "=anew"),
        };
        let told = run_once(&deployment, ingest(&address)).await;
        let more = if kind == Kind::Nats { 15 } else { 20 };
        assert!(told.contains(&format!("with {more} scores applied")), "{kind:?}: {told}");
        let top = "{ board(slug: \"b\") { standings { top { nodes { score } } } } }";
        let data = api.data(top, json!({})).await;
        let sum = (20 + more).to_string();
        assert_eq!(data["board"]["standings"]["top"]["nodes"], json!([{ "score": sum }]));
    }
}
