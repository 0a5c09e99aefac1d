//! The end of a season of a million members: the time until a webhook has told its winners, and
//! until a reader has the places of all of them.

use std::time::Duration;

use futures::stream::{self, StreamExt};
use serde_json::{Value, json};

use crate::Scale;
use crate::figures::Figures;
use tests::api::Api;
use tests::api::submission::submit;
use tests::attack::{Attacked, UNRATED};
use tests::clock::now_ms;
use tests::documents::{ADD_SEASON, SEASONS};
use tests::receiver::{Manner, Receiver, SETTINGS};
use tests::wait::{until, until_within};

/// The members who have a score in the season.
const MEMBERS: usize = 1_000_000;

/// The scores of a request, and the requests under way at once.
const SCORES: usize = 1000;
const WRITERS: usize = 4;

/// The time that a season goes on once it is listed: the scores come in less.
const LASTS: Duration = Duration::from_secs(300);

/// The longest wait for its end to be told.
const PATIENCE: Duration = Duration::from_secs(600);

const PAGE: &str = "query($after: String) { board(slug: \"league\") {
    standings(of: { window: \"season\", period: \"one\" }) { top(first: 1000, after: $after) {
        nodes { rank(method: COMPETITION) member { key } } pageInfo { hasNextPage endCursor }
    } } } }";

/// Measures one season.
pub(crate) async fn measure(scale: Scale, figures: &mut Figures) {
    let server = Attacked::start_with(&[&UNRATED[..], &SETTINGS].concat()).await;
    let api = &server.api;
    let receiver = Receiver::start(Manner::Takes).await;
    receiver.subscribe(api, &["PERIOD_ENDED"], None).await;
    let count = scale.of(MEMBERS, SCORES) / SCORES;
    let ends_ms = list(api).await;
    load(api, count).await;
    let told = until_within(PATIENCE, "the receiver has the end of the season", async || {
        receiver.data("laurel.period.ended.v1").pop()
    })
    .await;
    let since_end = || (now_ms() - ends_ms) as f64 / 1000.0;
    assert_eq!(told["size"], count * SCORES, "{told}");
    let what = format!("from the end of a season of {} members", count * SCORES);
    figures.add(&what, "s", "until 100 winners are told", since_end());
    let places = read(api).await;
    assert_eq!(places, count * SCORES);
    figures.add(&what, "s", "until all places are read", since_end());
}

/// Submits a score for each member of so many requests.
async fn load(api: &Api, count: usize) {
    let requests = stream::iter(0..count).map(async |request| {
        let first = request * SCORES;
        // Members come in an order that is not that of their scores.
        let score = |member: usize| member * 7919 % 1_000_003;
        let scores: Vec<_> = (first..first + SCORES)
            .map(|member| json!({ "member": format!("m{member}"), "score": score(member) }))
            .collect();
        submit(api, "league", json!(scores)).await;
    });
    requests.buffer_unordered(WRITERS).collect::<()>().await;
}

/// Creates a board with a season that ends soon; returns its end in Unix milliseconds.
async fn list(api: &Api) -> i64 {
    let board = json!({
        "slug": "league", "policy": "BEST", "shards": 16, "maxLatenessSeconds": 0,
        "windows": [{ "name": "season" }],
    });
    api.create_board(board).await;
    let ends_ms = now_ms() + LASTS.as_millis() as i64;
    let at = |ms| jiff::Timestamp::from_millisecond(ms).unwrap().to_string();
    let season = json!({
        "board": "league", "name": "one", "startsAt": at(ends_ms - 86_400_000), "endsAt": at(ends_ms),
    });
    api.data(ADD_SEASON, json!({ "input": season })).await;
    until("the season is ready", async || {
        let data = api.data(SEASONS, json!({ "slug": "league" })).await;
        (data["board"]["seasons"][0]["ready"] == true).then_some(())
    })
    .await;
    ends_ms
}

/// Reads the places of all members, page by page; returns their number.
async fn read(api: &Api) -> usize {
    let (mut after, mut places) = (Value::Null, 0);
    loop {
        let data = api.data(PAGE, json!({ "after": after })).await;
        let top = &data["board"]["standings"]["top"];
        places += top["nodes"].as_array().unwrap().len();
        if top["pageInfo"]["hasNextPage"] == false {
            return places;
        }
        after = top["pageInfo"]["endCursor"].clone();
    }
}
