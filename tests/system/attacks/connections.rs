//! Connections that take and give nothing, or nearly nothing: they end, and others are served.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;
use tests::api::Api;
use tests::api::metrics::metrics_of;
use tests::attack::process::Process;
use tests::attack::request::Attack;
use tests::attack::socket::{HALF, Socket, connect, head, slow};
use tests::attack::{Attacked, GROWTH_BYTES_MAX, UNRATED, boards};
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::program::limited;
use tests::wait::{PATIENCE, until_within};

/// Times that a test can wait for.
const SHORT: [(&str, &str); 7] = [
    ("LAUREL_HEADER_TIMEOUT_MS", "2000"),
    ("LAUREL_BODY_TIMEOUT_MS", "2000"),
    ("LAUREL_IDLE_TIMEOUT_MS", "2000"),
    ("LAUREL_WRITE_TIMEOUT_MS", "2000"),
    // Bodies and what is around them stay below the limit of memory.
    ("LAUREL_BODIES_BYTES", "25165824"),
    // A debug build beside other tests is slow to make an answer of 6 MB.
    ("LAUREL_QUERY_TIMEOUT_MS", "600000"),
    ("LAUREL_LOG", "warn"),
];

/// The time in which a server with these settings ends a connection, and a busy machine beside it.
const END_MAX: Duration = Duration::from_secs(15);

/// The connections that the server closed as their clients took no answer.
const CLOSED_FOR_STALL: &str = "laurel_connections_closed_total{reason=\"write\"}";

/// The connections that the system could not give.
const REFUSED_BY_SYSTEM: &str = "laurel_connections_refused_total{reason=\"system\"}";

/// A question that a server answers at once.
fn small() -> Attack {
    Attack::query("a small question", "{__typename}").served()
}

async fn short() -> Attacked {
    Attacked::start_with(&[&UNRATED[..], &SHORT].concat()).await
}

/// Lets a running process open files below this number only; returns the limit before.
fn limit_files(pid: u32, files: Option<u64>) -> Option<u64> {
    let pid = Pid::from_raw(pid.cast_signed());
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    prlimit(pid, Resource::Nofile, Rlimit { current: files, maximum }).unwrap().current
}

/// Checks that the server has closed each of the connections, soon.
async fn check_closed(sockets: Vec<Socket>, what: &str) {
    let deadline = Instant::now() + END_MAX;
    let count = sockets.len();
    let mut open = 0;
    for mut socket in sockets {
        let patience = deadline.saturating_duration_since(Instant::now());
        let (_, is_closed) = socket.read(patience.max(Duration::from_millis(10))).await;
        open += usize::from(!is_closed);
    }
    assert_eq!(open, 0, "{what}: so many of {count} connections are still open");
}

#[tokio::test]
async fn idle_connections_leave_room_for_others() {
    let own = Process::of(std::process::id()).files_max();
    let (files, count) = if own >= 4096 { (1024, 1100) } else { (256, 300) };
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let mut command = deployment.api(&["serve"]);
    command.envs([&UNRATED[..], &SHORT].concat());
    let api = Api::start_command(&deployment, limited(&command, &[&format!("-n {files}")])).await;
    let server = Attacked::of(api, &deployment).await;
    let attacking = async {
        let sockets = connect(server.api.url(), count, HALF).await;
        let began = Instant::now();
        while server.send(&small()).await.is_err() {
            assert!(began.elapsed() < END_MAX, "no new client is served");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        check_closed(sockets, "half a header").await;
    };
    let ((), spent) = server.measure(attacking).await;
    server.check(&format!("{count} connections, {files} files"), spent);
    assert!(server.is_alive().await, "the server does not answer any more");
}

#[tokio::test]
async fn a_server_that_may_open_no_file_says_so_and_serves_once_it_may() {
    let server = short().await;
    let (pid, url) = (server.api.pid(), server.api.url());
    let files = limit_files(pid, Some(3));
    let sockets = connect(url, 5, HALF).await;
    let told = async || server.api.log().contains("connections cannot be accepted").then_some(());
    until_within(PATIENCE, "the log has it", told).await;
    limit_files(pid, files);
    assert!(server.is_alive().await, "the server does not answer any more");
    let reply = server.send(&small()).await.unwrap();
    assert_eq!(reply.faults(small().outcome), [""; 0]);
    assert!(metrics_of(&server.api).await[REFUSED_BY_SYSTEM] >= 1.0);
    check_closed(sockets, "half a header").await;
}

#[tokio::test]
async fn one_address_cannot_hold_all_connections() {
    let few = [("LAUREL_ADDRESS_CONNECTIONS_MAX", "64")];
    let server = Attacked::start_with(&[&UNRATED[..], &SHORT, &few].concat()).await;
    let mut sockets = vec![];
    for _ in 0..200 {
        if let Ok(mut socket) = Socket::connect(server.api.url(), 2).await {
            socket.send(HALF).await;
            sockets.push(socket);
        }
    }
    let mut refused = 200 - sockets.len();
    for socket in &mut sockets {
        refused += usize::from(socket.read(Duration::from_millis(2)).await.1);
    }
    assert!(refused >= 100, "only {refused} of 200 connections were refused at once");
    let reply = server.send(&small()).await.unwrap();
    assert_eq!(reply.faults(small().outcome), [""; 0]);
    check_closed(sockets, "half a header").await;
}

#[tokio::test]
async fn a_full_server_makes_room_once_its_answers_are_sent() {
    let few = [
        ("LAUREL_CONNECTIONS_MAX", "32"),
        ("LAUREL_IDLE_TIMEOUT_MS", "600000"),
        ("LAUREL_FAILED_TOKENS_RATE", "1"),
    ];
    let server = Attacked::start_with(&[&UNRATED[..], &few].concat()).await;
    let url = server.api.url();
    let body = json!({ "query": "{__typename}" }).to_string();
    let guess = |number: usize| {
        let token = format!("Authorization: Bearer laurel_guess{number}_x\r\n");
        head(body.len()).replacen("\r\n", &format!("\r\n{token}"), 1) + &body
    };
    let mut first = Socket::connect(url, 2).await.unwrap();
    assert!(first.send(&guess(0)).await);
    assert!(first.read(Duration::from_secs(1)).await.0.contains("401"));
    drop(first);
    // Each is answered half a second later, so that none of them waits for its client meanwhile.
    let mut sockets = vec![];
    for number in 1..33 {
        let mut socket = Socket::connect(url, 2).await.unwrap();
        assert!(socket.send(&guess(number)).await);
        sockets.push(socket);
    }
    let mut other = Socket::connect(url, 3).await.unwrap();
    assert!(
        other.send("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").await
    );
    let (answer, _) = other.read(END_MAX).await;
    assert!(answer.ends_with("ok\n"), "a newcomer is not served: {answer:?}");
}

#[tokio::test]
async fn a_body_in_pieces_is_refused() {
    let server = short().await;
    let mut socket = Socket::connect(server.api.url(), 2).await.unwrap();
    let begin = head(0).replace("content-length: 0", "transfer-encoding: chunked");
    assert!(begin.contains("chunked"), "{begin}");
    let pieces = "1\r\n \r\n".repeat(2000);
    assert!(socket.send(&(begin + &pieces)).await);
    let (answer, is_closed) = socket.read(END_MAX).await;
    assert!(answer.contains(" 413 ") && answer.contains("too many parts"), "{answer}");
    assert!(is_closed);
}

#[tokio::test]
async fn slow_requests_end_and_hold_little() {
    let server = short().await;
    let url = server.api.url();
    for (what, count, text) in slow() {
        let attacking = async {
            let sockets = connect(url, count, &text).await;
            let reply = server.send(&small()).await.unwrap();
            assert_eq!(reply.faults(small().outcome), [""; 0], "beside {what}");
            check_closed(sockets, what).await;
        };
        let ((), spent) = server.measure(attacking).await;
        server.check(&format!("{count} connections with {what}"), spent);
    }
    // A client that sends a byte now and then is not waited for either.
    let mut slow = Socket::connect(url, 200).await.unwrap();
    assert!(slow.send(&head(400_000)).await);
    let began = Instant::now();
    while slow.send("x").await && !slow.read(Duration::from_millis(100)).await.1 {
        assert!(began.elapsed() < END_MAX, "a body of ten bytes a second is read for ever");
    }
}

/// A board with a long description, and a long slug, which is in the ids of its entries.
pub async fn long_board(server: &Attacked) -> String {
    let slug = "l".repeat(64);
    let board = json!({ "slug": slug, "description": "d".repeat(500) });
    server.api.create_board(board).await;
    boards::fill(server.api.deployment(), &slug).await;
    slug
}

/// One of many questions with an answer of 6 MB, more than the buffers of the system.
pub fn long_answer(slug: &str, number: usize) -> Attack {
    let lists = "a:top(first:1000){nodes{...long}} b:top(first:1000){nodes{...long}}";
    let texts: String = (0..6).map(|number| format!("d{number}:description ")).collect();
    let query = format!(
        "{{q{number}:board(slug:\"{slug}\"){{standings{{{lists}}}}}}} \
            fragment long on Entry {{standings{{board{{{texts}}}}}}}"
    );
    Attack::query("an answer of 6 MB", &query).served()
}

#[tokio::test]
async fn answers_that_are_not_read_end() {
    let server = short().await;
    // More than the buffers of a connection whose client reads nothing.
    let attack = long_answer(&long_board(&server).await, 0);
    let url = server.api.url();
    let reply = server.send(&attack).await.unwrap();
    assert_eq!(reply.faults(attack.outcome), [""; 0]);
    let length = reply.bytes.len();
    let attacking = async {
        let mut sockets = vec![];
        for host in 2..6 {
            let mut socket = Socket::connect_unread(url, host).await.unwrap();
            assert!(socket.ask(attack.body()).await);
            // One after the other: on a busy machine SQL may refuse some of four at once.
            socket.wait_for_answer().await;
            sockets.push(socket);
        }
        // Heavy requests of strangers get what a busy machine leaves them.
        until_within(4 * PATIENCE, "the server closes them", async || {
            let closed = metrics_of(&server.api).await[CLOSED_FOR_STALL];
            (closed >= 4.0).then_some(())
        })
        .await;
        for mut socket in sockets {
            let (text, is_closed) = socket.read(Duration::from_secs(5)).await;
            assert!(is_closed && text.len() < length, "{} of {length} B", text.len());
        }
    };
    let ((), spent) = server.measure(attacking).await;
    println!("answers that are not read: {spent}");
    assert!(server.is_alive().await, "the server does not answer any more");
}

#[tokio::test]
async fn many_answers_that_are_not_read_hold_a_bounded_memory() {
    let settings = [("LAUREL_QUERY_TIMEOUT_MS", "600000"), ("LAUREL_WRITE_TIMEOUT_MS", "60000")];
    let server = Attacked::start_with(&[&UNRATED[..], &settings].concat()).await;
    let slug = long_board(&server).await;
    // The memory in which an answer is made is there from here on.
    let attack = long_answer(&slug, 16);
    assert_eq!(server.send(&attack).await.unwrap().faults(attack.outcome), [""; 0]);
    let attacking = async {
        let mut sockets = vec![];
        for (number, host) in (2..6).cycle().take(16).enumerate() {
            let mut socket = Socket::connect_unread(server.api.url(), host).await.unwrap();
            assert!(socket.ask(long_answer(&slug, number).body()).await);
            socket.wait_for_answer().await;
            sockets.push(socket);
        }
        sockets
    };
    let (sockets, spent) = server.measure(attacking).await;
    println!("16 answers that are not read: {spent}");
    assert!(spent.grown_bytes <= GROWTH_BYTES_MAX, "{spent}");
    assert!(server.is_alive().await, "the server does not answer any more");
    drop(sockets);
}

#[tokio::test]
async fn requests_in_a_row_and_requests_that_are_none_cost_little() {
    let server = short().await;
    let url = server.api.url();
    let one = "GET /graphql?query=%7B__typename%7D HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    let bodies = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let post = "POST /graphql HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n";
    for (what, text) in [
        ("20,000 requests in a row", one.repeat(20_000)),
        ("two ways to end a body", format!("{post}{bodies}")),
        ("two lengths", format!("{post}Content-Length: 5\r\nContent-Length: 6\r\n\r\n{{}}")),
        ("a negative length", format!("{post}Content-Length: -1\r\n\r\n")),
        ("a length of 20 digits", format!("{post}Content-Length: 99999999999999999999\r\n\r\n")),
        ("a chunk without an end", format!("{post}Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n")),
        ("500 headers", format!("GET / HTTP/1.1\r\n{}\r\n", "X-a: b\r\n".repeat(500))),
        ("an address of 200 KB", format!("GET /graphql?query={} HTTP/1.1\r\n\r\n", "x".repeat(200_000))),
        ("the beginning of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".repeat(100)),
        ("no HTTP", "\0\u{1}\u{2}\r\n".repeat(10_000)),
        ("an upgrade", "GET /graphql HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n".to_owned()),
    ] {
        let attacking = async {
            let mut socket = Socket::connect_unread(url, 2).await.unwrap();
            // A server that reads no further keeps the sender waiting.
            let _ = tokio::time::timeout(Duration::from_secs(2), socket.send(&text)).await;
            drop(socket);
        };
        let ((), spent) = server.measure(attacking).await;
        server.check(what, spent);
        assert!(server.is_alive().await, "{what}: the server does not answer any more");
    }
}
