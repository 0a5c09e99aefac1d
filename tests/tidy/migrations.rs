//! The steps of the SQL schema: none forgotten, none changed once it is released.

use sha2::{Digest, Sha256};

use crate::tree::{files, read, report};

/// The file with the list of steps.
const LIST: &str = "migration/src/lib.rs";

/// Released steps, each with the SHA-256 of its files, in the order of their names. A release adds
/// its steps; none is ever changed or taken away.
const RELEASED: [(&str, &str); 0] = [];

/// The name of a step, from the path of one of its files.
fn step(path: &str) -> Option<&str> {
    let name = path.strip_prefix("migration/src/")?.split('.').next()?;
    name.starts_with("m2").then_some(name)
}

#[test]
fn every_step_is_listed_in_the_order_of_names() {
    let list = read(LIST);
    let mut findings = vec![];
    let steps: Vec<String> =
        files(&[".rs"]).iter().filter_map(|file| Some(step(&file.path)?.to_owned())).collect();
    let modules = list.text.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    let declared: Vec<&str> = modules.filter(|name| name.starts_with("m2")).collect();
    let parts = list.text.split("Box::new(").skip(1);
    let applied: Vec<&str> = parts.filter_map(|part| part.split("::Migration)").next()).collect();
    if declared != steps {
        findings.push(list.at(1, &format!("declares {declared:?}: expected {steps:?}")));
    }
    if applied != steps {
        findings.push(list.at(1, &format!("applies {applied:?}: expected {steps:?}")));
    }
    report(findings);
}

#[test]
fn a_released_step_is_frozen() {
    let sources = files(&[".rs", ".sql"]);
    let mut findings = vec![];
    for (name, released) in RELEASED {
        let mut hash = Sha256::new();
        for file in sources.iter().filter(|file| step(&file.path) == Some(name)) {
            hash.update(&file.text);
        }
        let hash = hash.finalize();
        let present: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        if present != released {
            findings.push(format!(
                "migration/src/{name}.rs:1: released, and changed: take the change back, and write a new step"
            ));
        }
    }
    report(findings);
}
