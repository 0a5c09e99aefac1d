//! `make faults`: the programs under faults, each with a load of numbered events, and one verdict
//! for all: what was confirmed counts exactly once, what was refused never.
//!
//! | module | has |
//! |---|---|
//! | [`fault`] | a row of the table of faults, and the table |
//! | [`process`], [`moments`] | processes killed, at any and at exact moments |
//! | [`redis`], [`redis_data`] | faults of Redis and of its data |
//! | [`sql`], [`sql_data`] | faults of SQL and of its data |
//! | [`away`] | SQL away for minutes, beside a steady load |
//! | [`network`] | faults of the network before a store |
//! | [`clock`], [`cluster`] | wrong clocks, and a Redis Cluster |
//! | [`trial`] | one fault, or a soak of many, done to a world |
//! | [`report`] | the table of what came out |
//! | [`settings`] | what to run |
//!
//! A run prints its seed; the same seed gives the same parameters of each fault.
//! `make test` runs half of a short part of the table, by chance one half or the other.

#![expect(
    clippy::unwrap_used,
    reason = "in a test a surprise is a failure, and its place is its best message"
)]

mod away;
mod clock;
mod cluster;
mod fault;
mod moments;
mod network;
mod process;
mod redis;
mod redis_data;
mod report;
mod settings;
mod sql;
mod sql_data;
mod trial;

use std::process::ExitCode;

use crate::fault::{Fault, Part};
use crate::report::Report;
use crate::settings::Settings;
use crate::trial::{Outcome, soak, try_fault};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let settings = Settings::from_environment();
    let is_due = |fault: &Fault| match fault.part {
        Part::Short => settings.asks_for(fault.name),
        Part::Soak | Part::Whole => !settings.is_short && settings.asks_for(fault.name),
        Part::Named => settings.names(fault.name),
    };
    let mut faults: Vec<Fault> = fault::all().into_iter().filter(is_due).collect();
    if std::env::args().any(|argument| argument == "--list") {
        faults.iter().for_each(|fault| println!("faults::{}: test", fault.name));
        return ExitCode::SUCCESS;
    }
    if settings.is_half() {
        let parity = settings.seed as usize % 2;
        faults = faults.into_iter().skip(parity).step_by(2).collect();
    }
    println!("{} faults, SEED={}", faults.len(), settings.seed);
    let mut report = Report::open(&settings);
    let mut failed = vec![];
    match settings.soak {
        Some(duration) => {
            let outcome = soak(duration, &settings).await;
            say(&outcome, &settings, &mut failed);
            report.add(outcome);
        }
        None => {
            for fault in &faults {
                let outcome = try_fault(fault, &settings).await;
                say(&outcome, &settings, &mut failed);
                report.add(outcome);
            }
        }
    }
    if !settings.is_short {
        report.write();
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("\nnot as promised: {}", failed.join(", "));
    ExitCode::FAILURE
}

/// Prints an outcome, and how to repeat a trial that failed.
fn say(outcome: &Outcome, settings: &Settings, failed: &mut Vec<String>) {
    println!("{}", outcome.line());
    if outcome.holds() {
        return;
    }
    outcome.findings().iter().for_each(|finding| println!("    {finding}"));
    let again = match outcome.is_soak {
        true => format!("SOAK={}", settings.soak.unwrap_or_default().as_secs()),
        false => format!("F={}", outcome.name),
    };
    println!("    again: make faults SEED={} {again}", settings.seed);
    failed.push(outcome.name.clone());
}
