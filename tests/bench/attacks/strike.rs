//! The attacks by their kind: hostile requests, and crowds of connections.

use std::time::Duration;

use serde_json::Value;
use tests::attack::Attacked;
use tests::attack::request::{Attack, Reply, aliases};
use tests::attack::socket::{HALF, Socket, connect, slow};
use tests::attack::{cost, documents, echoes, introspection, late_events};
use tests::model::schema::Schema;

/// The files that the server may open, and connections that are more than them.
pub(crate) const FILES: usize = 1024;
const MORE_THAN_FILES: usize = 1100;

/// The time for which a crowd holds its connections.
const HOLD: Duration = Duration::from_secs(3);

/// The connections that ask for a long answer, and the addresses that they come from.
const UNREAD: usize = 20;
const ADDRESSES: u8 = 8;

/// An attack on a server.
pub(crate) enum Strike {
    Request(Attack),
    /// Connections that each send the beginning of a request.
    Crowd {
        what: String,
        count: usize,
        text: String,
    },
    /// Connections that ask for long answers and read nothing.
    Unread,
}

impl Strike {
    /// Its name, in a cell of a table.
    pub(crate) fn what(&self) -> String {
        let what = match self {
            Self::Request(attack) => attack.what.clone(),
            Self::Crowd { what, count, .. } => format!("{count} connections with {what}"),
            Self::Unread => format!("{UNREAD} clients that read none of their 2 MB"),
        };
        what.replace('|', "/")
    }

    /// Strikes once; returns what came of it in words. A query has other words in earlier versions.
    pub(crate) async fn run(&self, server: &Attacked, words: &[(&str, &str)]) -> String {
        let url = server.api.url();
        match self {
            Self::Request(attack) => match server.send(&attack.in_words(words)).await {
                Ok(reply) => told(&reply),
                Err(error) if error.is_timeout() => "no answer in time".to_owned(),
                Err(_) => "no answer".to_owned(),
            },
            Self::Crowd { count, text, .. } => {
                let sockets = connect(url, *count, text).await;
                tokio::time::sleep(HOLD).await;
                format!("{} connected", sockets.len())
            }
            Self::Unread => {
                let mut sockets = vec![];
                for (number, host) in (2..2 + ADDRESSES).cycle().take(UNREAD).enumerate() {
                    if let Ok(mut socket) = Socket::connect_unread(url, host).await {
                        socket.ask(long_answer(number).in_words(words).body()).await;
                        sockets.push(socket);
                    }
                }
                tokio::time::sleep(HOLD).await;
                format!("{} connected", sockets.len())
            }
        }
    }
}

fn told(reply: &Reply) -> String {
    let code = reply.codes().into_iter().next().unwrap_or_default();
    format!("{} of {} B {code}", reply.status.as_u16(), reply.bytes.len())
}

/// One of many questions with an answer of some 2 MB, which the walls let through.
fn long_answer(number: usize) -> Attack {
    let lists = aliases(12, "top(first:1000){nodes{id rank score a:id b:id}}");
    Attack::query("", &format!("{{q{number}:board(slug:\"big\"){{standings{{{lists}}}}}}}"))
}

/// All attacks by their kind.
pub(crate) fn all(schema: &Schema) -> Vec<(&'static str, Vec<Strike>)> {
    let echoes = [
        echoes::repeated(),
        // One argument stands for all of them.
        echoes::texts(schema, 1_000_000).into_iter().take(1).collect(),
    ];
    let circles =
        [introspection::circles(6), introspection::hidden(), introspection::wide()].concat();
    let requests = [
        ("fragments that multiply", documents::fragments()),
        ("long variables", documents::variables()),
        ("heaps and nests", documents::heaps()),
        ("bodies that are no requests", documents::bodies()),
        ("circles of introspection", circles),
        ("texts that come back", echoes.concat()),
        ("products of costly fields", cost::bombs()),
        ("late scores", late_events::submissions()),
    ];
    let requests = requests.map(|(kind, attacks)| {
        (kind, attacks.into_iter().map(Strike::Request).collect::<Vec<_>>())
    });
    let crowd = |(what, count, text): (&str, usize, String)| Strike::Crowd {
        what: what.into(),
        count,
        text,
    };
    let beyond = crowd(("half a header", MORE_THAN_FILES, HALF.to_owned()));
    let crowds = slow().map(crowd).into_iter().chain([beyond, Strike::Unread]).collect();
    requests.into_iter().chain([("slow connections", crowds)]).collect()
}

/// The boards of the late scores.
pub(crate) fn boards() -> [Value; 3] {
    [late_events::months("roll"), late_events::years("year"), late_events::lenient("lenient")]
}
