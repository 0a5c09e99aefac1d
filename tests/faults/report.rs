//! The table of faults and what came of them: kept over runs beside the programs, and written into
//! the page on reliability when it is asked for.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tests::servers::program::root;

use crate::fault::all;
use crate::settings::Settings;
use crate::trial::Outcome;

/// The page that shows the table, and the lines around it.
const PAGE: &str = "docs/explanation/reliability.md";
const BEGIN: &str = "<!-- faults: begin -->";
const END: &str = "<!-- faults: end -->";

/// The outcomes of this run and of earlier ones, the last one of each fault.
pub(crate) struct Report {
    rows: BTreeMap<String, Value>,
    /// The date, the commit and the build of this run.
    run: String,
    seed: u64,
    writes_page: bool,
}

/// The directory of all that a run leaves behind: `faults` beside the build.
pub(crate) fn directory() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    this.ancestors().nth(2).expect("a test lies in <target>/<profile>/deps").join("faults")
}

impl Report {
    /// The outcomes of earlier runs.
    pub(crate) fn open(settings: &Settings) -> Self {
        let text = fs::read_to_string(directory().join("outcomes.json")).unwrap_or_default();
        let commit = Command::new("git")
            .args(["rev-parse", "--short", "HEAD"])
            .current_dir(root())
            .output()
            .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        let date = jiff::Timestamp::now().strftime("%Y-%m-%d");
        Self {
            rows: serde_json::from_str(&text).unwrap_or_default(),
            run: format!("{date}, commit {}, {build} build", commit.unwrap_or_default()),
            seed: settings.seed,
            writes_page: settings.writes_page,
        }
    }

    /// Adds an outcome, in place of an earlier one of the same fault.
    pub(crate) fn add(&mut self, outcome: Outcome) {
        let verdict = outcome.verdict.as_ref().ok().cloned().unwrap_or_default();
        let mut recoveries = verdict.recoveries.clone();
        recoveries.sort();
        let seconds = |time: Option<&std::time::Duration>| {
            time.map_or_else(|| "–".to_owned(), |time| format!("{:.1}", time.as_secs_f64()))
        };
        let allowed = match outcome.may_lose {
            true => verdict.lost_with_redis.to_string(),
            false => "–".to_owned(),
        };
        let row = json!({
            "does": outcome.does, "runs": outcome.runs, "held": outcome.holds(),
            "sent": verdict.sent, "confirmed": verdict.acknowledged,
            "lost": verdict.lost, "allowed": allowed,
            "doubled": verdict.doubled, "refused": verdict.refused,
            "falsely": verdict.false_refusals,
            "half": seconds(recoveries.get(recoveries.len() / 2)),
            "longest": seconds(recoveries.last()),
            "run": self.run, "seed": self.seed,
        });
        self.rows.insert(outcome.name, row);
    }

    /// Writes the outcomes and the table, and prints the latter.
    pub(crate) fn write(&self) {
        fs::create_dir_all(directory()).unwrap();
        let outcomes = serde_json::to_string_pretty(&self.rows).unwrap();
        fs::write(directory().join("outcomes.json"), outcomes).unwrap();
        let (path, table) = (directory().join("table.md"), self.table());
        fs::write(&path, &table).unwrap();
        println!("\n{table}\n{}", path.display());
        if self.writes_page {
            self.write_page(&table);
        }
    }

    /// The rows in the order of the faults, and the runs that they are from.
    fn table(&self) -> String {
        let mut names: Vec<&str> = all().iter().map(|fault| fault.name).collect();
        names.push("soak");
        let rows: Vec<(&str, &Value)> =
            names.iter().filter_map(|name| Some((*name, self.rows.get(*name)?))).collect();
        let mut runs: Vec<String> = rows
            .iter()
            .map(|(_, row)| {
                let run = row["run"].as_str().unwrap_or_default();
                format!("* {run}, `SEED={}`.", row["seed"])
            })
            .collect();
        runs.sort();
        runs.dedup();
        let mut table = format!("Runs:\n\n{}\n\n", runs.join("\n"));
        table.push_str(
            "| fault | done | sent | confirmed | lost | of Redis alone | doubled | refused \
                | false refusals | recovered in s, half / all | outcome |\n\
                |---|---|---|---|---|---|---|---|---|---|---|\n",
        );
        for (name, row) in rows {
            let text = |column: &str| row[column].as_str().unwrap_or_default().to_owned();
            let held = if row["held"] == true { "held" } else { "**did not hold**" };
            table.push_str(&format!(
                "| `{name}`: {} | {} | {} | {} | {} | {} | {} | {} | {} | {} / {} | {held} |\n",
                text("does"),
                row["runs"],
                row["sent"],
                row["confirmed"],
                row["lost"],
                text("allowed"),
                row["doubled"],
                row["refused"],
                row["falsely"],
                text("half"),
                text("longest"),
            ));
        }
        table
    }

    fn write_page(&self, table: &str) {
        let path = root().join(PAGE);
        let page = fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once(BEGIN).expect("the page has the line that begins it");
        let (_, after) = rest.split_once(END).expect("the page has the line that ends it");
        fs::write(&path, format!("{before}{BEGIN}\n{table}{END}{after}")).unwrap();
        println!("{PAGE} has the table now");
    }
}
