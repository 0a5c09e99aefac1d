//! One trial: a world under load, a fault that is done to it or many of them, and the verdict.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::FutureExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use tests::trial::verdict::{Loss, Verdict};
use tests::trial::world::{Clocks, RedisServers, Shape, SmallDiskOf, World};
use tokio::time::sleep;

use crate::fault::{Fault, Loses, Part, Refuses, all};
use crate::report;
use crate::settings::Settings;

/// The longest pause between two faults of a soak, in milliseconds.
const SOAK_PAUSE_MS_MAX: u64 = 6000;

/// The processes of a soak.
const SOAK_PROCESSES: usize = 3;

/// The outcome of a trial.
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) does: String,
    pub(crate) is_soak: bool,
    /// True if events that only Redis had may be lost.
    pub(crate) may_lose: bool,
    /// How many faults were done.
    pub(crate) runs: usize,
    /// How long the trial took.
    pub(crate) took: Duration,
    /// The verdict, or the message of the assertion that ended the trial.
    pub(crate) verdict: Result<Verdict, String>,
}

impl Outcome {
    /// True if all was as promised.
    pub(crate) fn holds(&self) -> bool {
        self.verdict.as_ref().is_ok_and(Verdict::holds)
    }

    /// The broken promises.
    pub(crate) fn findings(&self) -> Vec<String> {
        match &self.verdict {
            Ok(verdict) => verdict.findings.clone(),
            Err(message) => vec![message.clone()],
        }
    }

    /// The outcome in a line.
    pub(crate) fn line(&self) -> String {
        let held = if self.holds() { "held" } else { "FAILED" };
        let seconds = self.took.as_secs_f64();
        let Ok(verdict) = &self.verdict else {
            return format!("{:<26} {held} after {seconds:.0} s", self.name);
        };
        let recovery = verdict.recoveries.iter().max().copied().unwrap_or_default();
        format!(
            "{:<26} {held} in {seconds:.0} s: {} faults, {} sent, {} confirmed, {} lost ({} as \
                allowed), {} doubled, {} refused, {} false refusals, recovered in {:.1} s",
            self.name,
            self.runs,
            verdict.sent,
            verdict.acknowledged,
            verdict.lost,
            verdict.lost_with_redis,
            verdict.doubled,
            verdict.refused,
            verdict.false_refusals,
            recovery.as_secs_f64(),
        )
    }
}

/// Does one fault to a world of its own, as often as the settings say.
pub(crate) async fn try_fault(fault: &Fault, settings: &Settings) -> Outcome {
    let began = Instant::now();
    let trying = async {
        let seed = settings.seed ^ hash(fault.name);
        let mut rng = StdRng::seed_from_u64(seed);
        let mut trial = Trial::start(fault.shape, seed, settings).await;
        for _ in 0..settings.runs {
            trial.befall(fault, &mut rng).await;
        }
        trial.end(fault.name, &mut rng).await
    };
    let verdict = AssertUnwindSafe(trying).catch_unwind().await.map_err(message);
    Outcome {
        name: fault.name.to_owned(),
        does: fault.does.to_owned(),
        is_soak: false,
        may_lose: fault.loses == Loses::WithRedis,
        runs: settings.runs,
        took: began.elapsed(),
        verdict,
    }
}

/// Does random faults to one world, every few seconds.
pub(crate) async fn soak(duration: Duration, settings: &Settings) -> Outcome {
    let began = Instant::now();
    let mut runs = 0;
    let shape = Shape { processes: SOAK_PROCESSES, ..Shape::POSTGRES };
    let soaking = async {
        let mut rng = StdRng::seed_from_u64(settings.seed);
        let mut trial = Trial::start(shape, settings.seed, settings).await;
        let is_meant = |fault: &Fault| is_soaked(fault) && settings.asks_for(fault.name);
        let faults: Vec<Fault> = all().into_iter().filter(is_meant).collect();
        while began.elapsed() < duration {
            let fault = faults.choose(&mut rng).expect("some fault is asked for");
            println!("{:>6.0} s  {}", began.elapsed().as_secs_f64(), fault.name);
            trial.befall(fault, &mut rng).await;
            runs += 1;
            sleep(Duration::from_millis(rng.random_range(0..SOAK_PAUSE_MS_MAX))).await;
        }
        trial.end("soak", &mut rng).await
    };
    let verdict = AssertUnwindSafe(soaking).catch_unwind().await.map_err(message);
    Outcome {
        name: "soak".to_owned(),
        does: format!(
            "{SOAK_PROCESSES} processes and a random fault every few seconds, for {} s",
            duration.as_secs()
        ),
        is_soak: true,
        may_lose: true,
        runs,
        took: began.elapsed(),
        verdict,
    }
}

/// True for faults that the world of a soak can have: those of a world without anything special.
fn is_soaked(fault: &Fault) -> bool {
    let shape = fault.shape;
    matches!(fault.part, Part::Short | Part::Soak)
        && shape.redis == RedisServers::One
        && shape.small_disk == SmallDiskOf::None
        && shape.clocks == Clocks::OfMachine
}

/// A world under load.
struct Trial<'a> {
    settings: &'a Settings,
    world: World,
    recoveries: Vec<Option<Duration>>,
    /// SQL has each event that was acknowledged before this instant.
    in_sql: Instant,
    /// The spans of time in which Redis may have lost events that SQL did not have.
    losses: Vec<Loss>,
    /// The faults that refused scores against the promise.
    findings: Vec<String>,
}

impl<'a> Trial<'a> {
    async fn start(shape: Shape, seed: u64, settings: &'a Settings) -> Self {
        let mut world = World::start(shape, seed, settings.lasts).await;
        let in_sql = Instant::now();
        world.load.start();
        sleep(settings.calm).await;
        Self { settings, world, recoveries: vec![], in_sql, losses: vec![], findings: vec![] }
    }

    /// Does a fault to the world, and waits until it has recovered.
    async fn befall(&mut self, fault: &Fault, rng: &mut StdRng) {
        let began = Instant::now();
        (fault.inject)(&mut self.world, rng).await;
        if fault.loses == Loses::WithRedis {
            self.losses.push(Loss { from: self.in_sql, until: Instant::now() });
        }
        let recovered = self.world.recover(self.settings.recovery_longest).await;
        self.recoveries.push(recovered.map(|recovered| recovered.took));
        self.in_sql = recovered.map_or(self.in_sql, |recovered| recovered.in_sql);
        // An answer may be one to a request from before.
        let refused = self.world.load.refusals().iter().filter(|asked| **asked > began).count();
        if fault.refuses == Refuses::Nothing && refused > 0 {
            self.findings.push(format!("refused beside {}: {refused}", fault.name));
        }
        sleep(self.settings.calm).await;
    }

    async fn end(mut self, name: &str, rng: &mut StdRng) -> Verdict {
        self.world.load.stop().await;
        // The scores that were confirmed last are on their way to SQL.
        if self.world.recover(self.settings.recovery_longest).await.is_none() {
            self.recoveries.push(None);
        }
        let mut verdict = Verdict::of(&self.world, rng, self.recoveries, &self.losses).await;
        verdict.findings.append(&mut self.findings);
        if !verdict.holds() {
            self.world.keep_logs(&report::directory().join(name));
        }
        verdict
    }
}

/// The message of a panic.
fn message(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "it panicked".to_owned())
}

/// A number for a name, the same in every run.
fn hash(name: &str) -> u64 {
    // FNV-1a.
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
