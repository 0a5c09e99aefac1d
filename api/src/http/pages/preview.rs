//! Previews: the title, the text and the picture by which other programs show a link to the page.
//!
//! A preview has nothing but answers to queries of the page's own reader without a token, who pays
//! for them. So one of a private board, or of a member who hides, is that of any page.

use std::fmt::Write;
use std::net::IpAddr;

use axum::body::Bytes;
use axum::http::HeaderMap;
use engine::settings::connections::ImageHosts;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::http::Service;
use crate::http::execution::{Method, Received, execute};
use crate::http::parameters;
use crate::http::response::MediaType;

/// The longest answer from which a preview is made, in bytes: more than the longest names take.
const ANSWER_BYTES_MAX: usize = 64 << 10;

const BOARD: &str = "query($slug: String!, $of: StandingsOf) { board(slug: $slug) { \
    title description iconUrl standings(of: $of) { top(first: 3) { nodes { \
    rank formattedScore member { name } } } } } }";

const MEMBER: &str = "query($key: String!) { member(key: $key) { name avatarUrl } }";

/// The standings that an address of a board names.
#[derive(Debug, Default, Deserialize)]
pub struct Chosen {
    window: Option<String>,
    period: Option<String>,
    segment: Option<String>,
}

/// A preview; by default that of any page.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Preview {
    title: Option<String>,
    text: Option<String>,
    picture: Option<String>,
}

impl Preview {
    /// The elements of the head that tell it. A picture is named if the page may load it, too.
    pub fn head(&self, images: &ImageHosts) -> String {
        let title = self.title.as_deref().map(escaped);
        let mut head = match &title {
            Some(title) => format!("<title>{title} – Laurel</title>"),
            None => "<title>Laurel</title>".to_owned(),
        };
        let mut add = |name: &str, content: &str| {
            write!(head, "<meta property=\"{name}\" content=\"{content}\" />")
                .expect("a text takes all");
        };
        add("og:type", "website");
        add("og:site_name", "Laurel");
        add("og:title", title.as_deref().unwrap_or("Laurel"));
        if let Some(text) = &self.text {
            add("og:description", &escaped(text));
        }
        let may_load = |picture: &&String| {
            let url = Url::parse(picture).ok();
            url.and_then(|url| authority(&url)).is_some_and(|host| images.have(&host))
        };
        if let Some(picture) = self.picture.as_ref().filter(may_load) {
            add("og:image", &escaped(picture));
        }
        head
    }
}

/// The host of an address, with a port that is not the one of its scheme.
fn authority(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

/// The preview of a board: its title and its leaders.
pub async fn of_board(service: &Service, address: IpAddr, slug: &str, chosen: &Chosen) -> Preview {
    let Chosen { window, period, segment } = chosen;
    let mut of = json!({ "window": window, "period": period, "segment": segment });
    if let Value::Object(of) = &mut of {
        of.retain(|_, value| value.as_str().is_some_and(|text| !text.is_empty()));
    }
    let variables = json!({ "slug": slug, "of": of });
    let data = answer(service, address, BOARD, variables).await;
    let board = &data["board"];
    let leader = |entry: &Value| {
        let name = entry["member"]["name"].as_str().unwrap_or("–");
        Some(format!("{}. {name} {}", entry["rank"].as_i64()?, entry["formattedScore"].as_str()?))
    };
    let entries = board["standings"]["top"]["nodes"].as_array().into_iter().flatten();
    let leaders: Vec<String> = entries.filter_map(leader).collect();
    Preview {
        title: text(&board["title"]),
        text: text(&board["description"])
            .into_iter()
            .chain((!leaders.is_empty()).then(|| leaders.join(" · ")))
            .reduce(|description, leaders| format!("{description} {leaders}")),
        picture: text(&board["iconUrl"]),
    }
}

/// The preview of a member: its name.
pub async fn of_member(service: &Service, address: IpAddr, key: &str) -> Preview {
    let data = answer(service, address, MEMBER, json!({ "key": key })).await;
    let member = &data["member"];
    Preview { title: text(&member["name"]), text: None, picture: text(&member["avatarUrl"]) }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// The data of the answer to a client without a token; null if there is none.
async fn answer(service: &Service, address: IpAddr, query: &str, variables: Value) -> Value {
    let body = Bytes::from(json!({ "query": query, "variables": variables }).to_string());
    let received = Received {
        address,
        parameters: body.clone(),
        bytes: body.len(),
        headers: HeaderMap::new(),
        media_type: MediaType::Json,
        method: Method::Post,
        span: tracing::Span::none(),
    };
    let values_max = service.checks.variable_values_max();
    let parse = move || parameters::of_body(&body, values_max);
    let answer = execute(service.clone(), received, parse).await;
    let bytes = axum::body::to_bytes(answer.into_body(), ANSWER_BYTES_MAX).await;
    let mut answer: Value =
        bytes.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    answer.get_mut("data").map(Value::take).unwrap_or_default()
}

/// A text as the content of an element or an attribute of HTML.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_cannot_leave_its_place() {
        let preview = Preview {
            title: Some("</title><script>\"'&".to_owned()),
            text: Some("\"><b>".to_owned()),
            picture: Some("https://evil.example/a.png".to_owned()),
        };
        let head = preview.head(&ImageHosts::default());
        assert!(head.contains("&lt;/title&gt;&lt;script&gt;&quot;&#39;&amp;"), "{head}");
        assert!(!head.contains("<script") && !head.contains("<b>"), "{head}");
        assert!(!head.contains("evil.example"), "{head}");
    }
}
