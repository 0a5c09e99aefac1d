//! The figures of `/metrics`.

use std::collections::BTreeMap;

use crate::api::Api;

/// The figures by their names with labels.
pub async fn metrics_of(api: &Api) -> BTreeMap<String, f64> {
    let text = reqwest::get(format!("{}/metrics", api.url())).await.unwrap().text().await.unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let measured = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    });
    measured.collect()
}
