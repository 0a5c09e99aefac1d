//! Players who log in by JSON Web Tokens of another program.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::routing::get;
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use tests::api::{Answer, Api};
use tests::clock::now_ms;
use tests::deployment::{Deployment, Redis, Sql};
use tests::wait::until;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const ISSUER: &str = "https://id.example";
const AUDIENCE: &str = "laurel";

const VIEWER: &str = "{ viewer { scopes member { key } } }";

const SUBMIT: &str = "
    mutation($board: String!, $member: String!) {
        submitScores(input: { board: $board, scores: [{ member: $member, score: 1 }] }) { accepted }
    }";

/// The settings of a server for players of an issuer.
fn settings<'s>(keys: (&'s str, &'s str)) -> [(&'s str, &'s str); 3] {
    [keys, ("LAUREL_JWT_ISSUER", ISSUER), ("LAUREL_JWT_AUDIENCE", AUDIENCE)]
}

/// Good claims of a member, changed by others: null takes one away.
fn claims(member: &str, others: Value) -> Value {
    let exp = now_ms() / 1000 + 600;
    let mut claims = json!({ "sub": member, "iss": ISSUER, "aud": AUDIENCE, "exp": exp });
    for (name, value) in others.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

/// A token that the secret signed.
fn signed(member: &str, others: Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    encode(&Header::new(Algorithm::HS256), &claims(member, others), &key).unwrap()
}

/// A private key of an algorithm, made by openssl, and its public half with a name.
fn key(algorithm: Algorithm, id: &str) -> (EncodingKey, Jwk) {
    let script = match algorithm {
        Algorithm::RS256 => {
            "openssl genrsa -traditional 2048 | openssl rsa -traditional -outform DER"
        }
        Algorithm::ES256 => {
            "openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -outform DER"
        }
        _ => "openssl genpkey -algorithm ED25519 -outform DER",
    };
    let der = Command::new("sh").args(["-c", script]).output().unwrap().stdout;
    let key = match algorithm {
        Algorithm::RS256 => EncodingKey::from_rsa_der(&der),
        Algorithm::ES256 => EncodingKey::from_ec_der(&der),
        _ => EncodingKey::from_ed_der(&der),
    };
    let mut jwk = Jwk::from_encoding_key(&key, algorithm).unwrap();
    jwk.common.key_id = Some(id.to_owned());
    (key, jwk)
}

fn set(keys: &[&Jwk]) -> String {
    let keys = keys.iter().map(|key| (*key).clone()).collect();
    serde_json::to_string(&JwkSet { keys }).unwrap()
}

/// A token that a key with a name signed.
fn signed_by(key: &EncodingKey, algorithm: Algorithm, id: Option<&str>) -> String {
    let header = Header { kid: id.map(str::to_owned), ..Header::new(algorithm) };
    encode(&header, &claims("ann", json!({})), key).unwrap()
}

async fn ask(api: &Api, token: &str, text: &str) -> Answer {
    api.ask(Some(token), text, json!({})).await
}

/// The code and the message of the refusal of a token, or nothing.
async fn refusal(api: &Api, token: &str) -> Option<(String, String)> {
    let answer = ask(api, token, VIEWER).await;
    let code = answer.codes().first().map(|code| (*code).to_owned())?;
    assert_eq!(answer.status, reqwest::StatusCode::UNAUTHORIZED, "{}", answer.body);
    Some((code, answer.message().to_owned()))
}

#[tokio::test]
async fn a_player_is_the_member_of_the_token_and_may_what_it_says() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let settings = settings(("LAUREL_JWT_SECRET", SECRET));
    let api = Api::start_with_settings(&deployment, &settings).await;
    api.create_board(json!({ "slug": "own", "selfSubmit": true })).await;
    api.create_board(json!({ "slug": "served" })).await;
    let private = json!({ "slug": "secret", "selfSubmit": true, "visibility": "PRIVATE" });
    api.create_board(private).await;
    let submit = async |token: &str, board: &str, member: &str| {
        let variables = json!({ "board": board, "member": member });
        let answer = api.ask(Some(token), SUBMIT, variables).await;
        answer.codes().first().map(|code| (*code).to_owned())
    };
    for (scope, scopes, submits) in [
        (json!("submit"), json!(["READ", "SUBMIT"]), true),
        (json!("openid laurel:submit profile"), json!(["READ", "SUBMIT"]), true),
        (json!(["email", "submit"]), json!(["READ", "SUBMIT"]), true),
        (json!("read"), json!(["READ"]), false),
        (json!("admin"), json!(["READ"]), false),
        (json!("laurel:admin submit moderate"), json!(["READ", "SUBMIT"]), true),
        (json!(["friends", "submit"]), json!(["READ", "SUBMIT", "FRIENDS"]), true),
        (json!("laurel:friends"), json!(["READ", "FRIENDS"]), false),
        (json!(7), json!(["READ"]), false),
        (Value::Null, json!(["READ"]), false),
    ] {
        let token = signed("ann", json!({ "scope": scope }));
        let viewer = ask(&api, &token, VIEWER).await.body["data"]["viewer"].take();
        assert_eq!(viewer, json!({ "scopes": scopes, "member": { "key": "ann" } }), "{scope}");
        let refused = (!submits).then(|| "FORBIDDEN".to_owned());
        assert_eq!(submit(&token, "own", "ann").await, refused, "{scope}");
    }
    let token = signed("ann", json!({ "scope": "submit", "aud": ["other", AUDIENCE] }));
    for (board, member, refused) in [
        ("own", "ann", None),
        ("own", "bob", Some("FORBIDDEN")),
        ("served", "ann", Some("FORBIDDEN")),
        ("secret", "ann", Some("NOT_FOUND")),
    ] {
        assert_eq!(submit(&token, board, member).await.as_deref(), refused, "{board} {member}");
    }
    let text = "{ board(slug: \"secret\") { id } boards { nodes { slug } } }";
    let read = ask(&api, &token, text).await.body["data"].take();
    let public = json!([{ "slug": "own" }, { "slug": "served" }]);
    assert_eq!(read, json!({ "board": null, "boards": { "nodes": public } }));
    // The server's own tokens go on.
    let service = deployment.new_token(&["--scope", "submit", "--boards", "secret"]).await;
    assert_eq!(submit(&service, "secret", "bob").await, None);
}

#[tokio::test]
async fn a_token_that_is_not_the_issuers_for_this_server_is_refused_in_words() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let settings = settings(("LAUREL_JWT_SECRET", SECRET));
    let api = Api::start_with_settings(&deployment, &settings).await;
    let now_s = now_ms() / 1000;
    for (others, says) in [
        (json!({ "iss": "https://else.example" }), "expected the issuer https://id.example"),
        (json!({ "aud": "else" }), "expected the audience laurel"),
        (json!({ "aud": [] }), "expected"),
        (json!({ "iss": null }), "expected the claim iss"),
        (json!({ "iss": ["https://id.example", "x"] }), "expected the issuer https://id.example"),
        (json!({ "aud": null }), "expected the claim aud"),
        (json!({ "exp": null }), "expected"),
        (json!({ "sub": null }), "expected"),
        (json!({ "sub": "" }), "expected a member's key in sub"),
        (json!({ "sub": "a\u{7}" }), "expected a member's key in sub"),
        (json!({ "sub": "x".repeat(129) }), "expected a member's key in sub"),
        (json!({ "nbf": now_s + 3600 }), "not valid yet"),
        (json!({ "exp": now_s + 40 * 86_400 }), "expected exp within 30 days"),
        (json!({ "exp": i64::MAX }), "expected"),
        (json!({ "exp": "soon" }), "expected"),
        (json!({ "long": "x".repeat(9000) }), "expected at most 8192 bytes"),
    ] {
        let token = signed("ann", others.clone());
        let (code, message) = refusal(&api, &token).await.unwrap_or_else(|| panic!("{others}"));
        assert_eq!(code, "UNAUTHENTICATED", "{others}");
        assert!(message.contains(says), "{others}: {message}");
    }
    let expired = signed("ann", json!({ "exp": now_s - 60 }));
    assert_eq!(refusal(&api, &expired).await.unwrap().0, "EXPIRED_TOKEN");
    let good = signed("ann", json!({}));
    assert_eq!(refusal(&api, &good).await, None);
    let (head, signature) = good.rsplit_once('.').unwrap();
    let (_, payload) = head.split_once('.').unwrap();
    let (rsa, _) = key(Algorithm::RS256, "a");
    let other_secret = EncodingKey::from_secret(&[7; 32]);
    let mut critical = Header::new(Algorithm::HS256);
    critical.crit = Some(vec!["exp".to_owned()]);
    // The first header says {"alg":"none"}.
    for forged in [
        format!("eyJhbGciOiJub25lIn0.{payload}."),
        format!("eyJhbGciOiJub25lIn0.{payload}.{signature}"),
        format!("{head}."),
        format!("{head}.{}", signature.chars().rev().collect::<String>()),
        "a.b.c".to_owned(),
        "..".to_owned(),
        encode(&Header::new(Algorithm::HS256), &claims("ann", json!({})), &other_secret).unwrap(),
        encode(
            &Header::new(Algorithm::HS512),
            &claims("ann", json!({})),
            &EncodingKey::from_secret(SECRET.as_bytes()),
        )
        .unwrap(),
        signed_by(&rsa, Algorithm::RS256, None),
        encode(&critical, &claims("ann", json!({})), &EncodingKey::from_secret(SECRET.as_bytes()))
            .unwrap(),
    ] {
        let (code, message) = refusal(&api, &forged).await.unwrap_or_else(|| panic!("{forged}"));
        assert_eq!(code, "UNAUTHENTICATED", "{forged}: {message}");
    }
}

#[tokio::test]
async fn keys_of_a_file_check_tokens_of_their_own_algorithm_and_come_anew() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let algorithms = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];
    let made = algorithms.map(|algorithm| (algorithm, key(algorithm, &format!("{algorithm:?}"))));
    let file = tempfile::NamedTempFile::new().unwrap();
    let jwks: Vec<&Jwk> = made.iter().map(|(_, (_, jwk))| jwk).collect();
    std::fs::write(&file, set(&jwks)).unwrap();
    let settings = settings(("LAUREL_JWKS_FILE", file.path().to_str().unwrap()));
    let api = Api::start_with_settings(&deployment, &settings).await;
    for (algorithm, (key, jwk)) in &made {
        let id = format!("{algorithm:?}");
        assert_eq!(refusal(&api, &signed_by(key, *algorithm, Some(&id))).await, None, "{id}");
        assert_eq!(refusal(&api, &signed_by(key, *algorithm, None)).await, None, "{id}");
        // A server that went by the algorithm of the token would take the public key for a secret.
        let public = serde_json::to_string(jwk).unwrap();
        let confused = EncodingKey::from_secret(public.as_bytes());
        let token = signed_by(&confused, Algorithm::HS256, Some(&id));
        assert_eq!(refusal(&api, &token).await.unwrap().0, "UNAUTHENTICATED", "{id}");
    }
    let (other, jwk) = key(Algorithm::ES256, "next");
    for id in ["ES256", "next", "RS256"] {
        let token = signed_by(&other, Algorithm::ES256, Some(id));
        assert_eq!(refusal(&api, &token).await.unwrap().0, "UNAUTHENTICATED", "{id}");
    }
    std::fs::write(&file, set(&[&jwk])).unwrap();
    let token = signed_by(&other, Algorithm::ES256, Some("next"));
    until("the new key is read", async || refusal(&api, &token).await.is_none().then_some(()))
        .await;
}

#[tokio::test]
async fn keys_at_an_address_are_kept_while_it_is_away() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let (first, first_jwk) = key(Algorithm::EdDSA, "first");
    let (second, second_jwk) = key(Algorithm::EdDSA, "second");
    let served = Arc::new(Mutex::new(Some(set(&[&first_jwk]))));
    let serving = served.clone();
    let answer = move || {
        let body = serving.lock().unwrap().clone();
        async move { body.ok_or(axum::http::StatusCode::SERVICE_UNAVAILABLE) }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    let router = Router::new().route("/keys", get(answer));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let settings = settings(("LAUREL_JWKS_URL", &url));
    let api = Api::start_with_settings(&deployment, &settings).await;
    let good = signed_by(&first, Algorithm::EdDSA, Some("first"));
    assert_eq!(refusal(&api, &good).await, None);
    *served.lock().unwrap() = None;
    let unknown = signed_by(&second, Algorithm::EdDSA, Some("second"));
    until("the address was asked for another key", async || {
        (ask(&api, &unknown, VIEWER).await.codes() == ["UNAVAILABLE"]).then_some(())
    })
    .await;
    let again = signed_by(&first, Algorithm::EdDSA, None);
    assert_eq!(refusal(&api, &again).await, None);
    *served.lock().unwrap() = Some(set(&[&first_jwk, &second_jwk]));
    until("the second key is known", async || {
        ask(&api, &unknown, VIEWER).await.codes().is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn settings_that_do_not_fit_stop_the_start() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| -> PathBuf {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let empty = write("empty", "{\"keys\":[]}");
    let secret = write("secret", "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"}]}");
    let long = write("long", &" ".repeat(300 << 10));
    let none = dir.path().join("none");
    for (name, value, says) in [
        ("LAUREL_JWT_SECRET", "short".to_owned(), "expected 32 bytes or more"),
        ("LAUREL_JWKS_FILE", text(&none), "none"),
        ("LAUREL_JWKS_FILE", text(&empty), "no key can be used"),
        ("LAUREL_JWKS_FILE", text(&secret), "no key can be used"),
        ("LAUREL_JWKS_FILE", text(&long), "expected at most 262144 bytes"),
        ("LAUREL_JWKS_URL", "http://id.example/keys".to_owned(), "expected https"),
        ("LAUREL_JWKS_URL", "file:///etc/passwd".to_owned(), "expected https"),
        ("LAUREL_JWKS_URL", "http://127.0.0.1:1/keys".to_owned(), "cannot be had"),
    ] {
        let mut command = deployment.api(&["serve"]);
        let output = command.envs(settings((name, &value))).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(says), "{name}={value}: {said}");
        assert!(!said.contains("short\""), "{said}");
    }
    let mut command = deployment.api(&["serve"]);
    let output = command.env("LAUREL_JWT_SECRET", SECRET).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("LAUREL_JWT_ISSUER") && !said.contains(SECRET), "{said}");
    let mut command = deployment.api(&["serve"]);
    let output = command.env("LAUREL_JWT_ISSUER", ISSUER).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("LAUREL_JWKS_FILE"));
}
