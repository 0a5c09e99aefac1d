//! Persisted queries, and the headers for caches between clients and the server: tags and ages.

use reqwest::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, IF_NONE_MATCH, VARY,
};
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use tests::api::Api;
use tests::api::submission::submit;
use tests::deployment::{Deployment, Redis, Sql};
use tests::wait::until;

const TOP: &str = "
    query($n: Int) { board(slug: \"b\") { standings { top(first: $n) { nodes {
        rank score
    } } } } }";

struct Got {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn code(&self) -> Value {
        self.json()["errors"][0]["extensions"]["code"].clone()
    }

    fn header(&self, name: reqwest::header::HeaderName) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

async fn api_with(arguments: &[&str]) -> Api {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start_with(&deployment, arguments).await;
    api.create_board(json!({ "slug": "b" })).await;
    submit(&api, "b", json!([{ "member": "ann", "score": 1 }])).await;
    api
}

fn hash(query: &str) -> String {
    let hash = Sha256::digest(query);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn named(hash: &str) -> Value {
    json!({ "persistedQuery": { "version": 1, "sha256Hash": hash } })
}

/// Sends a GET request with these parameters and headers.
async fn get(api: &Api, parameters: &[(&str, &str)], headers: &[(&str, &str)]) -> Got {
    let mut url = reqwest::Url::parse(&format!("{}/graphql", api.url())).unwrap();
    url.query_pairs_mut().extend_pairs(parameters);
    let mut request = Client::new().get(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    got(request).await
}

async fn got(request: RequestBuilder) -> Got {
    let answer = request.send().await.unwrap();
    Got {
        status: answer.status(),
        headers: answer.headers().clone(),
        body: answer.text().await.unwrap(),
    }
}

async fn post_persisted(api: &Api, query: Option<&str>, hash: &str) -> Got {
    let mut body = json!({ "extensions": named(hash), "variables": { "n": 3 } });
    if let Some(query) = query {
        body["query"] = json!(query);
    }
    let url = format!("{}/graphql", api.url());
    got(Client::new().post(url).json(&body)).await
}

async fn get_persisted(api: &Api, query: Option<&str>, hash: &str) -> Got {
    let (extensions, variables) = (named(hash).to_string(), json!({ "n": 3 }).to_string());
    let mut parameters = vec![("extensions", &*extensions), ("variables", &*variables)];
    parameters.extend(query.map(|query| ("query", query)));
    get(api, &parameters, &[]).await
}

#[tokio::test]
async fn a_query_is_known_by_its_hash_once_it_was_sent_with_it() {
    let api = api_with(&[]).await;
    let sha = hash(TOP);
    let unknown = get_persisted(&api, None, &sha).await;
    assert_eq!(unknown.status, StatusCode::OK);
    assert_eq!(unknown.json()["errors"][0]["message"], "PersistedQueryNotFound");
    assert_eq!(unknown.code(), "PERSISTED_QUERY_NOT_FOUND");
    assert_eq!(unknown.header(CACHE_CONTROL), "no-store");
    let data =
        json!({ "board": { "standings": { "top": { "nodes": [{ "rank": 1, "score": "1" }] } } } });
    for query in [Some(TOP), None, Some(TOP), None] {
        let known = get_persisted(&api, query, &sha).await;
        assert_eq!(known.json(), json!({ "data": data }));
    }
    // By POST too; other spellings of the hash are refused.
    for (query, hash, code) in [
        (None, &*sha, None),
        (Some("{ __typename }"), &*sha, Some("BAD_USER_INPUT")),
        (Some(""), &*sha, Some("BAD_USER_INPUT")),
        (None, &*sha.to_uppercase(), Some("BAD_USER_INPUT")),
        (None, &sha[1..], Some("BAD_USER_INPUT")),
        (None, &*hash("{ __typename }"), Some("PERSISTED_QUERY_NOT_FOUND")),
    ] {
        let answer = post_persisted(&api, query, hash).await;
        let expected = code.map_or(Value::Null, Value::from);
        assert_eq!(answer.code(), expected, "{query:?} {hash}");
        assert_eq!(answer.header(CACHE_CONTROL), "no-store");
    }
    let newer = json!({ "persistedQuery": { "version": 2, "sha256Hash": sha } }).to_string();
    let newer = get(&api, &[("extensions", &newer)], &[]).await;
    assert_eq!(newer.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn what_may_not_run_is_not_kept() {
    let api = api_with(&[]).await;
    let long = format!("{{ __typename }} # {}", "x".repeat(64 << 10));
    let costly =
        "{ boards(first: 1000) { nodes { standings { top(first: 1000) { nodes { rank } } } } } }";
    for (query, code) in
        [(&*long, "LIMIT_EXCEEDED"), (costly, "LIMIT_EXCEEDED"), ("{ unknown", "BAD_USER_INPUT")]
    {
        let sha = hash(query);
        let refused = post_persisted(&api, Some(query), &sha).await;
        assert_eq!(refused.code(), code);
        let unknown = get_persisted(&api, None, &sha).await;
        assert_eq!(unknown.code(), "PERSISTED_QUERY_NOT_FOUND");
    }
    // A mutation may be known by its hash, but is still refused by GET.
    let mutation = "mutation { removeEntry(input: { board: \"b\", member: \"ann\" }) { removed } }";
    for query in [Some(mutation), None] {
        let refused = get_persisted(&api, query, &hash(mutation)).await;
        assert_eq!(refused.status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(refused.header(CACHE_CONTROL), "no-store");
    }
}

#[tokio::test]
async fn as_many_are_kept_as_fit() {
    let api = api_with(&["--persisted-queries-bytes", "10000"]).await;
    let query = |number: usize| format!("{{ a{number}: __typename }} # {}", "x".repeat(800));
    for number in 0..100 {
        let query = query(number);
        let sent = get_persisted(&api, Some(&query), &hash(&query)).await;
        assert_eq!(sent.status, StatusCode::OK);
    }
    // Queries beyond the limit are dropped a moment later.
    until("no more are known than fit", async || {
        let mut known = 0;
        for number in 0..100 {
            let asked = get_persisted(&api, None, &hash(&query(number))).await;
            known += usize::from(asked.json()["data"].is_object());
        }
        (known <= 10).then_some(())
    })
    .await;
    let api = api_with(&["--persisted-queries-bytes", "0"]).await;
    for query in [Some(TOP), Some(TOP)] {
        let sent = get_persisted(&api, query, &hash(TOP)).await;
        assert_eq!(sent.json()["errors"], Value::Null);
    }
    let unknown = get_persisted(&api, None, &hash(TOP)).await;
    assert_eq!(unknown.code(), "PERSISTED_QUERY_NOT_FOUND");
}

#[tokio::test]
async fn an_answer_for_all_has_a_tag_and_an_age_and_another_one_neither() {
    // The same with and without the server's own cache.
    for age in ["250", "0"] {
        let api = api_with(&["--cache-age-ms", age]).await;
        let bearer = format!("Bearer {}", api.token());
        let (asked, graphql) = (
            [("query", "{ board(slug: \"b\") { standings { size } } }")],
            ("accept", "application/graphql-response+json"),
        );
        let mut tags = vec![];
        for accept in [("accept", "application/json"), graphql] {
            let first = get(&api, &asked, &[accept]).await;
            assert_eq!(first.status, StatusCode::OK);
            assert_eq!(first.header(CACHE_CONTROL), "public, max-age=1");
            assert_eq!(first.header(VARY), "accept, authorization");
            let tag = first.header(ETAG).to_owned();
            assert!(tag.starts_with('"') && tag.ends_with('"'), "{tag}");
            let again = get(&api, &asked, &[accept]).await;
            assert_eq!(again.headers[ETAG], tag);
            assert_eq!(again.body, first.body);
            let (weak, list) = (format!("W/{tag}"), format!("\"other\", {tag}"));
            for known in [&*tag, &weak, &list, "*"] {
                let same = get(&api, &asked, &[accept, (IF_NONE_MATCH.as_str(), known)]).await;
                assert_eq!(same.status, StatusCode::NOT_MODIFIED);
                assert_eq!(same.body, "");
                for name in [ETAG, CACHE_CONTROL, VARY] {
                    assert_eq!(same.headers[&name], first.headers[&name]);
                }
                assert!(!same.headers.contains_key(CONTENT_TYPE));
            }
            tags.push(tag);
        }
        assert_ne!(tags[0], tags[1], "each media type has its own");
        submit(&api, "b", json!([{ "member": "bob", "score": 1 }])).await;
        let changed = get(&api, &asked, &[graphql, (IF_NONE_MATCH.as_str(), &tags[1])]).await;
        assert_eq!(changed.status, StatusCode::OK);
        assert_ne!(changed.headers[ETAG], tags[1]);

        let private = [("query", "{ viewer { scopes } board(slug: \"b\") { id } }")];
        let faulty =
            [("query", "{ board(slug: \"b\") { standings { entryAt(rank: 0) { rank } } } }")];
        let authorized = (AUTHORIZATION.as_str(), &*bearer);
        for (asked, headers) in [
            (&asked, vec![authorized]),
            (&private, vec![]),
            (&faulty, vec![]),
            (&[("query", "{ unknown }")], vec![]),
            (&[("query", "{")], vec![]),
            (&asked, vec![(AUTHORIZATION.as_str(), "Bearer none")]),
        ] {
            for _ in 0..2 {
                let headers = [&headers[..], &[(IF_NONE_MATCH.as_str(), "*")]].concat();
                let got = get(&api, asked, &headers).await;
                assert_ne!(got.status, StatusCode::NOT_MODIFIED, "{asked:?}");
                assert_eq!(got.header(CACHE_CONTROL), "no-store", "{asked:?}");
                assert_eq!(got.header(VARY), "accept, authorization");
                assert!(!got.headers.contains_key(ETAG), "{asked:?}");
            }
        }
    }
}
