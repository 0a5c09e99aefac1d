//! Fields of one key are judged as graphql-js judges them, however deep they lie.

use std::collections::HashMap;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::json;

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::model::game::seeded;
use tests::model::schema::{Field, Schema, named};
use tests::servers::{node, program};

/// The random documents.
const DOCUMENTS: usize = 400;

/// The most levels of fields.
const DEPTH_MAX: usize = 5;

/// The most calls of fields that a document has for each type.
const CALLS_MAX: usize = 3;

/// A field with its key and arguments, and the type of its selections.
#[derive(Clone)]
struct Call {
    text: String,
    below: Option<String>,
}

/// Documents whose selections draw on few calls for each type, so that fields meet at many keys.
struct Overlapping<'s> {
    schema: &'s Schema,
    rng: StdRng,
    calls: HashMap<String, Vec<Call>>,
    /// The fragments so far, by the types that they are on.
    fragments: Vec<(&'static str, String)>,
}

impl Overlapping<'_> {
    fn next_document(&mut self) -> String {
        self.calls.clear();
        self.fragments.clear();
        for on in ["Board", "Board", "Member", "Query"] {
            let selections = self.selections(on, 2);
            self.fragments.push((on, selections));
        }
        let mut text = self.selections("Query", 0);
        text.pop();
        // Each is spread somewhere.
        text.push_str(" ...F3 z: node(id: \"z\") { ...F0 ...F1 ...F2 } }");
        for (number, (on, selections)) in self.fragments.iter().enumerate() {
            text.push_str(&format!(" fragment F{number} on {on} {selections}"));
        }
        text
    }

    fn selections(&mut self, on: &str, depth: usize) -> String {
        if depth == DEPTH_MAX {
            return "{ __typename }".to_owned();
        }
        let mut text = "{ __typename".to_owned();
        for _ in 0..self.rng.random_range(1..=3) {
            text.push(' ');
            let spread = (0..self.fragments.len()).filter(|at| self.fragments[*at].0 == on);
            let spread: Vec<usize> = spread.collect();
            if self.rng.random_bool(0.15)
                && let Some(number) = spread.choose(&mut self.rng)
            {
                text.push_str(&format!("...F{number}"));
            } else if on == "Node" || self.rng.random_bool(0.1) {
                let objects = ["Board", "Member", "Entry"];
                let object = if on == "Node" { objects.choose(&mut self.rng).unwrap() } else { on };
                text.push_str(&format!("... on {object} {}", self.selections(object, depth + 1)));
            } else if let Some(call) = self.call(on) {
                text.push_str(&call.text);
                if let Some(below) = call.below {
                    text.push_str(&self.selections(&below, depth + 1));
                }
            }
        }
        text + " }"
    }

    fn call(&mut self, on: &str) -> Option<Call> {
        if !self.calls.contains_key(on) {
            let schema = self.schema;
            let callable: Vec<(&Field, Vec<String>)> =
                schema.fields(on).iter().filter_map(|field| Some((field, needs(field)?))).collect();
            let calls = (0..CALLS_MAX).filter_map(|_| {
                let (field, needs) = callable.choose(&mut self.rng)?;
                let key = ["", "", "", "a: ", "b: "].choose(&mut self.rng)?;
                let arguments = match needs.is_empty() {
                    true => String::new(),
                    false => format!("({})", needs.join(", ")),
                };
                let of = named(&field.of);
                let below = schema.is_composite(of).then(|| of.to_owned());
                Some(Call { text: format!("{key}{}{arguments}", field.name), below })
            });
            let calls = calls.collect();
            self.calls.insert(on.to_owned(), calls);
        }
        self.calls[on].choose(&mut self.rng).cloned()
    }
}

/// The arguments that a field needs; `None` if one of them is not simple.
fn needs(field: &Field) -> Option<Vec<String>> {
    let needed = field.arguments.iter().filter(|argument| argument.of.ends_with('!'));
    let value = |of: &str| match of {
        "String!" | "ID!" | "Decimal!" => Some("\"1\""),
        "Int!" => Some("1"),
        "[String!]!" => Some("[\"b\"]"),
        _ => None,
    };
    needed.map(|argument| Some(format!("{}: {}", argument.name, value(&argument.of)?))).collect()
}

#[tokio::test]
async fn fields_of_one_key_are_judged_as_graphql_js_judges_them() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let schema = Schema::of(&api).await;
    let mut source =
        Overlapping { schema: &schema, rng: seeded(), calls: HashMap::new(), fragments: vec![] };
    let documents: Vec<String> = (0..DOCUMENTS).map(|_| source.next_document()).collect();
    let path = deployment.path("documents.json");
    std::fs::write(&path, json!(documents).to_string()).unwrap();
    let sdl = program::root().join("schema.graphql");
    let judged = node::run("validate.js", &[sdl.to_str().unwrap(), &path]).await;
    let (mut counts, mut differ) = ([0; 2], vec![]);
    for (document, expected) in documents.iter().zip(judged.as_array().unwrap()) {
        let answer = api.query(document, json!({})).await;
        if answer["errors"][0]["extensions"]["code"] == "LIMIT_EXCEEDED" {
            continue;
        }
        let is_valid = answer.get("data").is_some();
        counts[usize::from(is_valid)] += 1;
        if is_valid != expected.is_null() {
            differ.push(format!("{document}\n  graphql-js: {expected}\n  Laurel: {answer}"));
        }
    }
    println!("{} refused, {} accepted", counts[0], counts[1]);
    assert!(differ.is_empty(), "{} differ, such as {}", differ.len(), differ[0]);
    assert!(counts.iter().all(|count| *count > DOCUMENTS / 10), "{counts:?}");
}
