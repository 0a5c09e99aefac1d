//! Every field of the schema × every kind of client × boards that it sees or not, against the table
//! in `who_may.txt`.

use std::collections::BTreeMap;
use std::sync::Arc;

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::api::subscriber::Subscriber;
use tests::clock::now_ms;
use tests::deployment::{Deployment, Redis, Sql};
use tests::model::schema::{Field, Input, Schema, in_lists, named, object};

/// The table.
const WHO_MAY: &str = include_str!("who_may.txt");

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// The member that every field is asked for.
const MEMBER: &str = "ann";

/// A public board, a private one, and none.
const BOARDS: [&str; 3] = ["open", "shut", "none"];

/// Fields that make or unmake the board that they name, so that it must not exist.
pub(super) const OF_NEW_BOARDS: [&str; 2] = ["Mutation.createBoard", "Mutation.deleteBoard"];

/// Fields of objects that are not for everyone, each with a query of it about a public board.
const OF_OBJECTS: [(&str, &str); 13] = [
    ("Board.quarantine", "{ board(slug: \"open\") { quarantine { edges { cursor } } } }"),
    ("Board.reports", "{ board(slug: \"open\") { reports { edges { cursor } } } }"),
    ("Member.bans", "{ member(key: \"ann\") { bans { since } } }"),
    ("Member.events", "{ member(key: \"ann\") { events(board: \"open\") { totalCount } } }"),
    ("Member.friendRequests", "{ member(key: \"ann\") { friendRequests { totalCount } } }"),
    ("Member.friends", "{ member(key: \"ann\") { friends { totalCount } } }"),
    ("Node.AuditEntry", "{ node(id: \"auditEntry:1\") { id } }"),
    ("Node.ErasureReceipt", "{ node(id: \"erasureReceipt:1\") { id } }"),
    ("Node.MemberReport", "{ node(id: \"memberReport:1\") { id } }"),
    ("Node.QuarantinedScore", "{ node(id: \"quarantined:1\") { id } }"),
    ("Node.Webhook", "{ node(id: \"webhook:1\") { id } }"),
    ("Node.FriendEntry", "{ node(id: \"friendEntry:open.1:all:all::ann:ann\") { id } }"),
    (
        "Standings.friends",
        "{ board(slug: \"open\") { standings { friends(member: \"ann\") { totalCount } } } }",
    ),
];

/// A kind of client.
#[derive(Debug)]
struct Client {
    name: String,
    token: Option<String>,
    /// The scopes, with those that they include.
    scopes: Vec<&'static str>,
    /// The member that it is bound to.
    member: Option<&'static str>,
    /// The boards that it sees.
    sees: Vec<&'static str>,
}

impl Client {
    /// True if a line of the table allows it the field.
    fn may(&self, who: &str) -> bool {
        who.split(", ").any(|item| match item.split_once(' ') {
            Some(("own", scope)) => self.has(scope) && self.member == Some(MEMBER),
            Some(("service", scope)) => self.has(scope) && self.member.is_none(),
            None if item == "anyone" => true,
            None if item == "token" => self.token.is_some(),
            None => self.has(item),
            Some(_) => panic!("{who:?} has {item:?}: expected own or service and a scope"),
        })
    }

    fn has(&self, scope: &str) -> bool {
        self.scopes.contains(&scope)
    }
}

/// The scopes that one includes, itself among them.
fn included(scope: &'static str) -> Vec<&'static str> {
    match scope {
        "admin" => vec!["read", "submit", "friends", "moderate", "admin"],
        "read" => vec!["read"],
        other => vec!["read", other],
    }
}

/// A player's token.
fn player(member: &str, scope: &str) -> String {
    let claims = json!({
        "sub": member, "iss": "game", "aud": "laurel", "exp": now_ms() / 1000 + 600, "scope": scope,
    });
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    encode(&Header::new(Algorithm::HS256), &claims, &key).unwrap()
}

/// Every kind of client.
async fn clients(deployment: &Arc<Deployment>) -> Vec<Client> {
    let mut clients = vec![Client {
        name: "anyone".to_owned(),
        token: None,
        scopes: vec![],
        member: None,
        sees: vec!["open"],
    }];
    for scope in ["read", "submit", "friends", "moderate", "admin"] {
        for member in [None, Some("ann"), Some("bob")] {
            for sees in [vec!["open"], vec!["shut"]] {
                let is_greater = scope == "moderate" || scope == "admin";
                let is_listed = sees == ["shut"];
                if is_greater && member.is_some() || scope == "admin" && is_listed {
                    continue;
                }
                let mut arguments = vec!["--scope", scope];
                arguments.extend(member.iter().flat_map(|member| ["--member", *member]));
                arguments.extend(is_listed.then_some(["--boards", "shut"]).into_iter().flatten());
                let token = deployment.new_token(&arguments).await;
                let name = arguments.join(" ");
                let sees = if scope == "admin" { vec!["open", "shut"] } else { sees };
                let scopes = included(scope);
                clients.push(Client { name, token: Some(token), scopes, member, sees });
            }
        }
    }
    for member in ["ann", "bob"] {
        for scope in ["read", "submit", "friends"] {
            clients.push(Client {
                name: format!("player {member} {scope}"),
                token: Some(player(member, scope)),
                scopes: included(scope),
                member: Some(member),
                sees: vec!["open"],
            });
        }
    }
    clients
}

/// A value for an argument, of a board.
fn value(schema: &Schema, field: &str, input: &Input, board: &str) -> String {
    let of_string = match (field, input.name.as_str()) {
        (_, "slug" | "board") => board,
        (_, "friend") => "bob",
        ("Mutation.eraseMember", _) => "nobody",
        (_, "id") if field == "Mutation.voidEvent" => "event:0:999999:0",
        (_, "id") if field == "Mutation.revokeAccessToken" => "accessToken:none",
        (_, "id") if field == "Query.integrityRun" => "integrityRun:1",
        (_, "url") => "https://127.0.0.1/",
        (_, "id") => "member:ann",
        _ => MEMBER,
    };
    let one = match named(&input.of) {
        "ID" | "String" => format!("{of_string:?}"),
        "Int" | "Float" => "1".to_owned(),
        "Boolean" => "true".to_owned(),
        "Decimal" => "\"1\"".to_owned(),
        "DateTime" if input.name == "endsAt" => "\"2126-01-01T00:00:00Z\"".to_owned(),
        "DateTime" => "\"2125-01-01T00:00:00Z\"".to_owned(),
        other => match schema.values(other).first() {
            Some(first) => first.clone(),
            None => object(values(schema, field, schema.inputs(other), board)),
        },
    };
    in_lists(&input.of, one)
}

/// Values for the arguments that have to be given.
fn values(schema: &Schema, field: &str, inputs: &[Input], board: &str) -> Vec<(String, String)> {
    let needed = inputs.iter().filter(|input| input.of.ends_with('!'));
    needed.map(|input| (input.name.clone(), value(schema, field, input, board))).collect()
}

/// An operation that asks for a field of a root, about a board.
pub(super) fn document(schema: &Schema, root: &str, field: &Field, board: &str) -> String {
    let values = values(schema, &format!("{root}.{}", field.name), &field.arguments, board);
    let arguments: Vec<String> =
        values.into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let arguments = match arguments.is_empty() {
        true => String::new(),
        false => format!("({})", arguments.join(", ")),
    };
    let leaf = if schema.is_composite(named(&field.of)) { " { __typename }" } else { "" };
    format!("{} {{ {}{arguments}{leaf} }}", root.to_lowercase(), field.name)
}

/// The answer to an operation.
async fn answer(api: &Api, client: &Client, text: &str) -> Value {
    let token = client.token.as_deref();
    if !text.starts_with("subscription") {
        return api.ask(token, text, json!({})).await.body;
    }
    let mut socket = Subscriber::connect(api, token).await;
    socket.subscribe("1", text, json!({})).await;
    let message = socket.next().await;
    match message["type"] == "error" {
        true => json!({ "errors": message["payload"] }),
        false => message["payload"].clone(),
    }
}

/// The refusal of an answer, if it is for want of rights.
fn refusal(answer: &Value) -> Option<&str> {
    let code = answer["errors"][0]["extensions"]["code"].as_str();
    code.filter(|code| ["UNAUTHENTICATED", "FORBIDDEN"].contains(code))
}

/// The table: each field with who may.
pub(super) fn table() -> BTreeMap<&'static str, &'static str> {
    let lines = WHO_MAY.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(": ").unwrap()).collect()
}

pub(super) async fn start() -> Api {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let settings = [
        ("LAUREL_JWT_SECRET", SECRET),
        ("LAUREL_JWT_ISSUER", "game"),
        ("LAUREL_JWT_AUDIENCE", "laurel"),
    ];
    let api = Api::start_with_settings(&deployment, &settings).await;
    for (slug, visibility) in [("open", "PUBLIC"), ("shut", "PRIVATE")] {
        let input = json!({ "slug": slug, "visibility": visibility, "selfSubmit": true });
        api.create_board(input).await;
    }
    let scores = ["ann", "bob"].map(|member| json!({ "member": member, "score": 1 }));
    submit_durably(&api, "open", json!(scores)).await;
    api
}

#[tokio::test]
async fn every_field_is_for_those_whom_the_table_names() {
    let api = start().await;
    let schema = Schema::of(&api).await;
    let clients = clients(api.deployment()).await;
    let mut table = table();
    let mut findings: Vec<String> = vec![];
    for root in ["Query", "Mutation", "Subscription"] {
        for field in schema.fields(root) {
            let name = format!("{root}.{}", field.name);
            let Some(who) = table.remove(name.as_str()) else {
                findings.push(format!("{name} is not in who_may.txt: say who may"));
                continue;
            };
            for client in &clients {
                let mut answers = BTreeMap::new();
                let of_new = OF_NEW_BOARDS.contains(&name.as_str());
                for board in if of_new { &["new"][..] } else { &BOARDS } {
                    let text = document(&schema, root, field, board);
                    let of_board = text.contains(&format!("{board:?}"));
                    let answer = answer(&api, client, &text).await;
                    let expected = match (client.may(who), &client.token) {
                        (true, _) => None,
                        (false, None) => Some("UNAUTHENTICATED"),
                        (false, Some(_)) => Some("FORBIDDEN"),
                    };
                    // A board that does not exist may be looked at before the rights to it.
                    let is_hidden = of_board && !client.sees.contains(board);
                    let is_absent = is_hidden && answer.to_string().contains("NOT_FOUND");
                    let is_refused = refusal(&answer) == expected;
                    if !(is_refused || is_absent && client.token.is_some()) {
                        findings.push(format!("{name} on {board} by {}: {answer}", client.name));
                    }
                    if of_board {
                        answers.insert(*board, answer.to_string().replace(board, "#"));
                    }
                }
                for board in ["open", "shut"] {
                    let Some(answer) = answers.get(board).filter(|_| client.may(who)) else {
                        continue;
                    };
                    let is_as_absent = answers.get("none") == Some(answer);
                    if is_as_absent == client.sees.contains(&board) {
                        findings.push(format!("{name}: {} and {board}: {answer}", client.name));
                    }
                }
            }
        }
    }
    for (name, text) in OF_OBJECTS {
        let who = table.remove(name).unwrap();
        for client in clients.iter().filter(|client| client.sees.contains(&"open")) {
            let answer = answer(&api, client, text).await;
            let expected = match (client.may(who), &client.token) {
                (true, _) => None,
                (false, None) => Some("UNAUTHENTICATED"),
                (false, Some(_)) => Some("FORBIDDEN"),
            };
            if refusal(&answer) != expected {
                findings.push(format!("{name} by {}: {answer}", client.name));
            }
        }
    }
    findings.extend(table.keys().map(|name| format!("{name} of who_may.txt does not exist")));
    assert!(findings.is_empty(), "{findings:#?}");
}
