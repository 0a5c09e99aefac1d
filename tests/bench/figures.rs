//! Figures of several runs, their medians side by side, the table and the file.

use std::path::PathBuf;

use serde_json::{Value, json};
use tests::servers::program::root;

/// All figures.
#[derive(Debug, Default)]
pub(crate) struct Figures(Vec<Pair>);

/// A figure of two variants, or of one alone.
#[derive(Debug)]
struct Pair {
    what: String,
    unit: &'static str,
    sides: Vec<Side>,
}

/// A variant's figure, one value per run.
#[derive(Debug)]
struct Side {
    variant: String,
    runs: Vec<f64>,
}

impl Figures {
    /// Adds a figure of one run. The first variant of a figure is the peer of the other.
    pub(crate) fn add(&mut self, what: &str, unit: &'static str, variant: &str, value: f64) {
        let place = self.0.iter().position(|pair| pair.what == what);
        let place = place.unwrap_or_else(|| {
            self.0.push(Pair { what: what.to_owned(), unit, sides: vec![] });
            self.0.len() - 1
        });
        let sides = &mut self.0[place].sides;
        match sides.iter_mut().find(|side| side.variant == variant) {
            Some(side) => side.runs.push(value),
            None => sides.push(Side { variant: variant.to_owned(), runs: vec![value] }),
        }
    }

    /// Prints the table, as Markdown.
    pub(crate) fn print(&self) {
        println!("\n| median of the runs | | | ratio |\n|---|---|---|---|");
        for Pair { what, unit, sides } in &self.0 {
            let told: Vec<String> = sides
                .iter()
                .map(|side| format!("{}: {} {unit}", side.variant, shown(side.median())))
                .collect();
            let ratio = match &sides[..] {
                [peer, side] => format!("{:.2}", side.median() / peer.median()),
                _ => String::new(),
            };
            let others = told[1..].join("<br>");
            println!("| {what} | {} | {others} | {ratio} |", told[0]);
        }
    }

    /// The medians of a figure's variants, if it was measured.
    pub(crate) fn medians(&self, what: &str) -> impl Iterator<Item = (&str, f64)> {
        let pairs = self.0.iter().filter(move |pair| pair.what == what);
        let sides = pairs.flat_map(|pair| &pair.sides);
        sides.map(|side| (side.variant.as_str(), side.median()))
    }

    /// The directory of all files.
    pub(crate) fn dir() -> PathBuf {
        let dir = root().join("target/bench");
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// Writes the file, with a description of the machine, and returns its path.
    pub(crate) fn write(&self, machine: &Value) -> PathBuf {
        let figures: Vec<Value> = self.0.iter().map(Pair::to_json).collect();
        let mut file = machine.clone();
        file["figures"] = figures.into();
        let path = Self::dir().join("figures.json");
        std::fs::write(&path, format!("{file:#}\n")).unwrap();
        path
    }
}

impl Pair {
    fn to_json(&self) -> Value {
        let side = |side: &Side| json!({ "variant": side.variant, "median": side.median(), "runs": side.runs });
        let sides: Vec<Value> = self.sides.iter().map(side).collect();
        json!({ "what": self.what, "unit": self.unit, "variants": sides })
    }
}

impl Side {
    fn median(&self) -> f64 {
        let mut runs = self.runs.clone();
        quantile(&mut runs, 0.5)
    }
}

/// The least value that this part of the values does not exceed.
pub(crate) fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (values.len() as f64 * part).ceil() as usize;
    values[rank.clamp(1, values.len()) - 1]
}

/// Three digits, or the whole number.
fn shown(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}
