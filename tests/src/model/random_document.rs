//! Random queries, made from the schema, about as costly as a server lets pass.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::attack::boards::{MEMBERS, key};
use crate::model::schema::{Field, Input, Schema, in_lists, named, object};

/// The most levels of fields.
const DEPTH_MAX: usize = 7;

/// The most fields of a document at scale 1.
const FIELDS_MAX: f64 = 120.0;

/// The steps by which a scale follows what the server says.
const GROW: f64 = 1.05;
const SHRINK: f64 = 0.9;

/// A source of random queries whose size follows the answers.
pub struct RandomDocuments<'s> {
    schema: &'s Schema,
    rng: StdRng,
    /// From 0.01, for the smallest documents, to 1.
    scale: f64,
    /// The fields that the present document may still have.
    left: usize,
}

impl<'s> RandomDocuments<'s> {
    /// A source for a schema.
    pub fn new(schema: &'s Schema, rng: StdRng) -> Self {
        Self { schema, rng, scale: 0.3, left: 0 }
    }

    /// The next query.
    pub fn next_document(&mut self) -> String {
        self.left = (FIELDS_MAX * self.scale) as usize + 2;
        self.selections("Query", 0)
    }

    /// Makes the next documents smaller after one that was refused, else larger.
    pub fn learn(&mut self, was_refused: bool) {
        let step = if was_refused { SHRINK } else { GROW };
        self.scale = (self.scale * step).clamp(0.01, 1.0);
    }

    fn selections(&mut self, type_name: &str, depth: usize) -> String {
        let schema = self.schema;
        let fields: Vec<&Field> = schema.fields(type_name).iter().collect();
        let count = self.rng.random_range(1..=4);
        let mut text = "{__typename".to_owned();
        for alias in 0..count {
            let is_last = depth == DEPTH_MAX || self.left == 0;
            let leaves = fields.iter().filter(|field| !schema.is_composite(named(&field.of)));
            let some: Vec<&Field> = match is_last {
                true => leaves.copied().collect(),
                false => fields.clone(),
            };
            let Some(field) = some.choose(&mut self.rng).copied() else { break };
            self.left = self.left.saturating_sub(1);
            let arguments = self.arguments(&field.arguments);
            // Some share a key, and conflict or are merged.
            let alias = match self.rng.random_bool(0.9) {
                true => format!("a{alias}:"),
                false => String::new(),
            };
            text.push_str(&format!(" {alias}{}{arguments}", field.name));
            if schema.is_composite(named(&field.of)) {
                text.push_str(&self.selections(named(&field.of), depth + 1));
            }
        }
        text + "}"
    }

    fn arguments(&mut self, inputs: &[Input]) -> String {
        let mut given = vec![];
        for input in inputs {
            if input.of.ends_with('!') || self.rng.random_bool(0.4) {
                given.push(format!("{}:{}", input.name, self.value(input)));
            }
        }
        if given.is_empty() { String::new() } else { format!("({})", given.join(",")) }
    }

    fn value(&mut self, input: &Input) -> String {
        // A value that may be of another kind.
        if self.rng.random_bool(0.02) {
            let odd = ["null", "[]", "{}", "-1", "1e99", "\"\"", "true", "\"\\u0000\"", "ORDINAL"];
            return (*odd.choose(&mut self.rng).unwrap()).to_owned();
        }
        if input.of.starts_with('[') {
            let most = (1000.0 * self.scale) as usize + 1;
            let count = self.rng.random_range(0..=most);
            let values: Vec<String> = (0..count).map(|_| self.one(input)).collect();
            return format!("[{}]", values.join(","));
        }
        self.one(input)
    }

    fn one(&mut self, input: &Input) -> String {
        let page = (1000.0 * self.scale * self.scale) as i64 + 2;
        match named(&input.of) {
            "Int" => self.rng.random_range(-1..=page).to_string(),
            "Float" => format!("{:.3}", self.rng.random_range(-1.0..101.0)),
            "Boolean" => self.rng.random_bool(0.5).to_string(),
            "DateTime" => {
                let day = self.rng.random_range(1..=28);
                format!("\"2025-01-{day:02}T10:00:00Z\"")
            }
            "Decimal" => format!("\"{}\"", self.rng.random_range(-9..9999)),
            "ID" => {
                let ids = [
                    "board:big.1",
                    "board:tie.3",
                    "member:m00000",
                    "window:big.1:daily",
                    "period:big.1:daily:2025-01-05",
                    "standings:big.1:all:all:",
                    "friendEntry:big.1:all:all::m00000:m00001",
                    "x",
                ];
                format!("\"{}\"", ids.choose(&mut self.rng).unwrap())
            }
            "String" => self.text(&input.name),
            other => match self.schema.values(other).choose(&mut self.rng) {
                Some(value) => value.clone(),
                None => {
                    let schema = self.schema;
                    let fields = schema.inputs(other).iter();
                    object(fields.map(|field| (field.name.clone(), self.nested(field))).collect())
                }
            },
        }
    }

    fn nested(&mut self, input: &Input) -> String {
        in_lists(&input.of, self.one(input))
    }

    fn text(&mut self, name: &str) -> String {
        let boards = ["big", "big16", "tie", "hour", "events", "none"];
        let windows = ["all", "all", "hourly", "daily", "7d", "x"];
        let text = match name {
            "slug" | "board" | "boards" => (*boards.choose(&mut self.rng).unwrap()).to_owned(),
            "window" | "since" => (*windows.choose(&mut self.rng).unwrap()).to_owned(),
            "member" | "members" | "key" | "keys" => key(self.rng.random_range(0..MEMBERS)),
            "prefix" => "m0".to_owned(),
            _ => "x".repeat(self.rng.random_range(0..20)),
        };
        format!("\"{text}\"")
    }
}
