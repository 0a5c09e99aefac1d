//! The dependencies of each crate: a crate that must not know a thing does not list it.

use std::collections::BTreeSet;

use crate::tree::{SourceFile, files, report};

/// Packages, each with the crates that may list it as a dependency.
const USERS: [(&str, &[&str]); 19] = [
    ("async-graphql", &["api"]),
    ("async-graphql-axum", &["api"]),
    ("async-graphql-value", &["api"]),
    ("async-nats", &["ingest", "tests"]),
    ("axum", &["api", "tests"]),
    ("clap", &["engine", "api", "analytics", "ingest"]),
    ("clap_complete", &["api"]),
    ("clap_mangen", &["api"]),
    ("lapin", &["ingest", "tests"]),
    ("opentelemetry", &["api"]),
    ("opentelemetry-proto", &["api", "tests"]),
    ("opentelemetry_sdk", &["api"]),
    ("polars", &["analytics"]),
    ("rdkafka", &["ingest", "tests"]),
    ("redis", &["ranking", "tests"]),
    ("sea-orm", &["entity", "engine", "api", "analytics", "tests"]),
    ("sqlx", &["engine"]),
    ("tracing-opentelemetry", &["api"]),
    ("tracing-subscriber", &["engine", "api", "analytics"]),
];

/// The crates of this workspace, each with those that it may list.
const OWN: [(&str, &[&str]); 8] = [
    ("ranking", &[]),
    ("entity", &["ranking"]),
    ("migration", &[]),
    ("engine", &["ranking", "entity", "migration"]),
    ("api", &["ranking", "entity", "migration", "engine"]),
    ("analytics", &["ranking", "entity", "migration", "engine"]),
    ("ingest", &["ranking", "engine"]),
    ("tests", &["ranking", "entity", "migration", "engine"]),
];

/// The manifests of the crates, by the folder of each.
fn manifests() -> Vec<(String, SourceFile)> {
    let manifests = files(&["Cargo.toml"]).into_iter();
    manifests
        .filter_map(|file| Some((file.path.strip_suffix("/Cargo.toml")?.to_owned(), file)))
        .collect()
}

/// The packages that a manifest lists under one of these headings, each with its line.
fn listed<'a>(manifest: &'a SourceFile, headings: &[&str]) -> Vec<(usize, &'a str)> {
    let (mut listed, mut is_under) = (vec![], false);
    for (number, line) in manifest.lines() {
        if line.starts_with('[') {
            is_under = headings.contains(&line.trim());
        } else if is_under && line.starts_with(|first: char| first.is_ascii_lowercase()) {
            listed.push((number, line.split(['.', ' ', '=']).next().unwrap_or_default()));
        }
    }
    listed
}

#[test]
fn a_crate_lists_only_the_packages_that_it_may_know() {
    let mut findings = vec![];
    for (name, manifest) in manifests() {
        for (line, package) in listed(&manifest, &["[dependencies]"]) {
            let users = USERS.iter().find(|(used, _)| *used == package);
            if let Some((_, users)) = users.filter(|(_, users)| !users.contains(&name.as_str())) {
                let remedy =
                    format!("only {} may list {package}: move the code there", users.join(", "));
                findings.push(manifest.at(line, &remedy));
            }
        }
    }
    report(findings);
}

#[test]
fn crates_of_the_workspace_depend_in_one_direction() {
    let headings = ["[dependencies]", "[dev-dependencies]", "[build-dependencies]"];
    let mut findings = vec![];
    let mut found = BTreeSet::new();
    for (name, manifest) in manifests() {
        let Some((own, allowed)) = OWN.iter().find(|(own, _)| *own == name) else {
            findings.push(
                manifest.at(1, "a new crate: say in tests/tidy/crates.rs which crates it may list"),
            );
            continue;
        };
        found.insert(*own);
        for (line, package) in listed(&manifest, &headings) {
            let is_own = OWN.iter().any(|(own, _)| *own == package);
            if is_own && !allowed.contains(&package) {
                let remedy = format!(
                    "{name} must not know {package}: the order is ranking, entity, engine, then api, analytics and ingest"
                );
                findings.push(manifest.at(line, &remedy));
            }
        }
    }
    report(findings);
    assert_eq!(found.len(), OWN.len(), "a crate is gone: take it off OWN");
}
