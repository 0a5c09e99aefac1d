//! GraphiQL: in a browser, and as files of the server.

use std::io::Read;

use flate2::read::GzDecoder;
use reqwest::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderMap, IF_NONE_MATCH, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use reqwest::{Client, StatusCode};
use serde_json::json;

use tests::api::Api;
use tests::boards::race::race;
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::built;
use tests::servers::node::{self, chromium};

#[tokio::test]
async fn graphiql_works_in_a_browser_and_asks_no_other_host() {
    let (_deployment, api) = race().await;
    let (browser, profile) = (chromium(), tempfile::tempdir().unwrap());
    let arguments =
        [browser.to_str().unwrap(), api.url(), api.token(), profile.path().to_str().unwrap()];
    let seen = node::run("graphiql.js", &arguments).await;
    assert_eq!(seen["complaints"], json!([]), "{:#}", seen["requests"]);
    let ours = format!("{}/graphi", api.url());
    for url in seen["requests"].as_array().unwrap() {
        let url = url.as_str().unwrap();
        let asked = url.starts_with(&ours) || url == format!("{}/graphql", api.url());
        assert!(asked || url.starts_with("data:"), "it asked for {url}");
    }
    // The editors write hard spaces.
    let shown = |tab: &str| seen["shown"][tab].as_str().unwrap().replace('\u{a0}', " ");
    assert!(shown("manual").contains("CreateBoardInput"));
    assert!(shown("Boards").contains("\"slug\": \"race\""));
    assert!(shown("typed").contains("\"ADMIN\""));
    assert!(shown("live").contains("\"rank\""));
    assert!(shown("wrong").contains("unknown or revoked"), "{}", shown("wrong"));
    assert!(shown("scopes").contains("admin"), "{}", shown("scopes"));
    assert_eq!(seen["hidden"], "password");
    let answers = &seen["answers"];
    for (tab, answer) in answers.as_object().unwrap() {
        assert_eq!(answer.get("errors"), None, "{tab}: {answer}");
    }
    assert_eq!(
        answers["Boards"]["data"]["boards"]["nodes"][0]["standings"],
        json!({ "size": 5, "top": { "nodes": [{ "score": "30.00", "member": { "key": "ann" } }] } })
    );
    assert_eq!(answers["CreateBoard"]["data"]["createBoard"]["board"]["slug"], "chess");
    assert_eq!(answers["SubmitScores"]["data"]["submitScores"]["accepted"], 2);
    assert_eq!(
        answers["typed"],
        json!({ "data": { "viewer": { "scopes": ["READ", "SUBMIT", "FRIENDS", "MODERATE", "ADMIN"] } } })
    );
    // The token is kept for the tab only.
    let [session, local] = seen["kept"].as_array().unwrap().as_slice() else {
        panic!("{}", seen["kept"])
    };
    assert_eq!(session, &json!({ "laurel:access-token": api.token() }));
    assert!(!local.to_string().contains(api.token()));
}

#[tokio::test]
async fn built_files_are_cached_compressed_and_guarded() {
    let (_deployment, api) = race().await;
    let client = Client::new();
    let get = async |address: &str, headers: HeaderMap| {
        let request = client.get(format!("{}{address}", api.url())).headers(headers);
        request.send().await.unwrap()
    };
    for (address, content) in built::assets() {
        let page = address == "/graphiql" || address == "/admin";
        let plain = get(&address, HeaderMap::new()).await;
        assert_eq!(plain.status(), StatusCode::OK, "{address}");
        let headers = plain.headers().clone();
        let policy = headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        for directive in [
            "default-src 'none'",
            "script-src 'self'",
            "connect-src 'self'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(directive), "{address}: {policy}");
        }
        assert!(!policy.contains("http") && !policy.contains("unsafe-eval"));
        assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers[REFERRER_POLICY], "no-referrer");
        let caching = headers[CACHE_CONTROL].to_str().unwrap();
        assert_eq!(caching.contains("immutable"), !page, "{address}: {caching}");
        assert_ne!(headers[CONTENT_TYPE], "application/octet-stream");
        assert_eq!(headers.get(CONTENT_ENCODING), None);
        let body = plain.bytes().await.unwrap();
        assert!(String::from_utf8_lossy(&body) == content, "{address}");

        let wanting = HeaderMap::from_iter([(ACCEPT_ENCODING, "br, gzip".parse().unwrap())]);
        let gzip = get(&address, wanting.clone()).await;
        assert_eq!(gzip.headers()[CONTENT_ENCODING], "gzip", "{address}");
        let tag = gzip.headers()[ETAG].clone();
        assert_ne!(tag, headers[ETAG], "each coding has its own tag");
        let mut inflated = Vec::new();
        let deflated = gzip.bytes().await.unwrap();
        GzDecoder::new(&*deflated).read_to_end(&mut inflated).unwrap();
        assert!(body == inflated, "{address}");

        for (known, status) in [(&tag, StatusCode::NOT_MODIFIED), (&headers[ETAG], StatusCode::OK)]
        {
            let mut conditional = wanting.clone();
            conditional.insert(IF_NONE_MATCH, known.clone());
            let answer = get(&address, conditional).await;
            assert_eq!(answer.status(), status, "{address}");
            assert_eq!(answer.headers()[ETAG], tag);
        }
    }
    let missing = get("/graphiql/assets/..%2Findex.html", HeaderMap::new()).await;
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
}

#[test]
fn nothing_in_built_files_loads_from_elsewhere() {
    for (address, content) in built::assets() {
        // Loads by a page, a style sheet or a script. A link for a person to follow is not a load.
        for loads in ["src=", "src:", "url(", "@import", "import(", "from", "fetch(", "Worker("] {
            for (at, _) in content.match_indices(loads) {
                let rest = content[at + loads.len()..].trim_start();
                let rest = rest.trim_start_matches(['"', '\'', '`', '(', ' ']);
                let elsewhere = ["http:", "https:", "//"];
                assert!(
                    !elsewhere.iter().any(|scheme| rest.starts_with(scheme)),
                    "{address}: {loads}{}",
                    rest.chars().take(80).collect::<String>()
                );
            }
        }
    }
    let pages = [
        (built::GRAPHIQL, "/graphiql/assets/"),
        (built::OFFICE, "/admin/assets/"),
        (built::PAGE, "/page/assets/"),
    ];
    for (page, assets) in pages {
        let page = built::index(page);
        for attribute in ["src=\"", "href=\""] {
            for (at, _) in page.match_indices(attribute) {
                let named = &page[at + attribute.len()..];
                let allowed = [assets, "data:", "/graphql?query=", "/graphql\"", "/admin\"", "/\""];
                assert!(allowed.iter().any(|start| named.starts_with(start)), "{named}");
            }
        }
    }
}

#[tokio::test]
async fn the_front_page_and_the_start_lead_to_it() {
    let (_deployment, api) = race().await;
    let leads = |front: &str| !front.contains("laurel:graphiql");
    let front = reqwest::get(api.url()).await.unwrap().text().await.unwrap();
    assert!(leads(&front), "{front}");
    let address = format!("{}/graphiql", api.url());
    assert!(api.printed().contains(&address), "{}", api.printed());
}

#[tokio::test]
async fn a_setting_switches_it_off() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start_with_settings(&deployment, &[("LAUREL_GRAPHIQL", "off")]).await;
    let page = Client::new().get(format!("{}/graphiql", api.url())).send().await.unwrap();
    assert_eq!(page.status(), StatusCode::NOT_FOUND);
    let front = reqwest::get(api.url()).await.unwrap().text().await.unwrap();
    assert!(front.contains("<meta name=\"laurel:graphiql\" content=\"off\" />"), "{front}");
}
