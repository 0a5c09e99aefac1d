//! Batch after batch: taken, submitted, its dead letters put aside, settled. Each step waits for
//! the one before, so a crash at any of them makes the broker hand the batch out again.

mod requests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use engine::failpoint;
use engine::settings::IngestSettings;
use futures::stream::{StreamExt, TryStreamExt};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::format::{Boards, Reading, Score, read, shortened};
use crate::message::{Fault, Message};
use crate::metrics::Metrics;
use crate::server::{Answer, Readiness, Server};
use crate::source::{DeadLetter, Opening, Source, Trouble};
use crate::stop::Stop;
use requests::{Numbered, board, parts, requests, told};

/// The first pause after a server or a broker that did not answer; each is twice the one before.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The requests of a batch that are under way at a time.
const REQUESTS_AT_ONCE: usize = 4;

/// How often in a row nothing has to be left with `once`. Messages may be on their way here when
/// the broker says for the first time that none waits.
const LOOKS: usize = 2;

/// How often the broker is asked how much is left.
const LAG_INTERVAL: Duration = Duration::from_secs(5);

/// The program's work.
pub(crate) struct Worker {
    opening: Opening,
    server: Server,
    metrics: Arc<Metrics>,
    boards: Boards,
    stop: Stop,
    once: bool,
    asked_at: Option<Instant>,
}

/// Pauses that grow.
struct Pauses(Duration);

impl Worker {
    /// A worker that has not begun.
    ///
    /// # Errors
    /// If a setting about boards is invalid.
    pub(crate) fn new(
        settings: &IngestSettings,
        opening: Opening,
        server: Server,
        metrics: Arc<Metrics>,
        stop: Stop,
        once: bool,
    ) -> Result<Self> {
        let boards = Boards::new(settings.board.as_deref(), settings.board_template.as_deref())?;
        let server = if opening.keeps_positions() { server.with_positions() } else { server };
        Ok(Self { opening, server, metrics, boards, stop, once, asked_at: None })
    }

    /// Works until a signal, or with `once` until nothing is left.
    ///
    /// # Errors
    /// If the server refuses the token or is another one at the start, the settings do not fit the
    /// broker, or a message is refused and there is no place for it.
    pub(crate) async fn run(&mut self) -> Result<()> {
        let stop = self.stop.clone();
        tokio::select! {
            worked = self.work() => worked,
            () = stop.over() => {
                tracing::warn!("the batch under way took too long, and is left to the broker");
                Ok(())
            }
        }
    }

    async fn work(&mut self) -> Result<()> {
        let mut pauses = Pauses(PAUSE_MIN);
        loop {
            match self.server.check().await? {
                Readiness::Ready => break,
                Readiness::Wrong(why) => return Err(anyhow!(why)),
                Readiness::Away(why) => self.metrics.paused.pause(why),
            }
            if !self.rest(&mut pauses).await {
                return Ok(());
            }
        }
        let mut was_open = false;
        loop {
            let trouble = match self.opening.open().await {
                Ok(mut source) => {
                    was_open = true;
                    let drained = self.drain(&mut *source, &mut pauses).await;
                    if !matches!(drained, Err(Trouble::Lost(_))) {
                        source.close().await;
                    }
                    match drained {
                        Ok(()) => return Ok(()),
                        Err(trouble) => trouble,
                    }
                }
                // A broker in trouble of its own may miss what was there.
                Err(Trouble::Wrong(error)) if was_open => Trouble::Lost(error),
                Err(trouble) => trouble,
            };
            match trouble {
                Trouble::Wrong(error) => return Err(error),
                Trouble::Lost(error) => self.metrics.paused.pause(shortened(&format!("{error:#}"))),
            }
            if !self.rest(&mut pauses).await {
                return Ok(());
            }
        }
    }

    /// Rests; false if there was a signal.
    async fn rest(&self, pauses: &mut Pauses) -> bool {
        tokio::select! {
            () = self.stop.said() => false,
            () = pauses.rest() => true,
        }
    }

    /// Works through an open source.
    async fn drain(&mut self, source: &mut dyn Source, pauses: &mut Pauses) -> Result<(), Trouble> {
        let mut looks = 0;
        loop {
            let batch = tokio::select! {
                biased;
                () = self.stop.said() => return Ok(()),
                batch = source.next_batch() => batch?,
            };
            self.metrics.paused.go_on();
            let is_due = self.asked_at.is_none_or(|at| at.elapsed() >= LAG_INTERVAL);
            if is_due || (self.once && batch.is_empty()) {
                let lag = source.lag().await?;
                self.metrics.lags(lag);
                self.asked_at = Some(Instant::now());
                // Messages of a consumer that died are handed out again, so it waits for them.
                let is_empty = batch.is_empty() && (lag.waiting, lag.under_way) == (0, 0);
                looks = if is_empty { looks + 1 } else { 0 };
                if self.once && looks == LOOKS {
                    return Ok(());
                }
            }
            if !batch.is_empty() {
                failpoint::hit("ingest-taken");
                self.work_through(source, &batch).await?;
                *pauses = Pauses(PAUSE_MIN);
            }
        }
    }

    /// Takes a batch to its end.
    async fn work_through(
        &self,
        source: &mut dyn Source,
        batch: &[Message],
    ) -> Result<(), Trouble> {
        let readings: Vec<Reading> =
            batch.iter().map(|message| read(message, &self.boards)).collect();
        let mut put_aside = 0;
        for part in parts(batch, &readings, source.name().is_some())? {
            let faults = self.submit_part(source, batch, &readings, part.clone()).await?;
            if let Some(first) = faults.first()
                && self.opening.dead_letters.is_none()
            {
                let left = faults.iter().map(|letter| letter.index).chain(part.end..batch.len());
                let settled = source.settle(&left.collect()).await?;
                self.metrics.settled.inc_by(settled as u64);
                return Err(Trouble::Wrong(anyhow!(
                    "message {} of {} is refused: {} ({}); --dead-letters names a place for such messages",
                    batch[first.index].position,
                    self.opening.place(),
                    first.fault.reason,
                    first.fault.code,
                )));
            }
            if !faults.is_empty() {
                source.put_aside(batch, &faults).await?;
                self.metrics.count_letters(faults.len());
                failpoint::hit("ingest-dead-lettered");
            }
            put_aside += faults.len();
        }
        failpoint::hit("ingest-settling");
        let settled = source.settle(&BTreeSet::new()).await?;
        failpoint::hit("ingest-settled");
        self.metrics.settled.inc_by(settled.saturating_sub(put_aside) as u64);
        self.metrics.put_aside.inc_by(put_aside as u64);
        Ok(())
    }

    /// Submits the messages of a part of a batch. Returns their dead letters.
    async fn submit_part(
        &self,
        source: &mut dyn Source,
        batch: &[Message],
        readings: &[Reading],
        part: Range<usize>,
    ) -> Result<Vec<DeadLetter>, Trouble> {
        let told = source.name().map(|name| told(name, &batch[part.clone()]));
        let faults = {
            let mut submitting =
                std::pin::pin!(self.submit(&readings[part.clone()], told.as_deref()));
            let mut keep = interval(source.keep_interval());
            keep.set_missed_tick_behavior(MissedTickBehavior::Delay);
            keep.reset();
            loop {
                tokio::select! {
                    faults = &mut submitting => break faults.map_err(Trouble::Wrong)?,
                    _ = keep.tick() => source.keep().await?,
                }
            }
        };
        failpoint::hit("ingest-submitted");
        let letter = |(index, fault)| DeadLetter { index: part.start + index, fault };
        Ok(faults.into_iter().map(letter).collect())
    }

    /// Submits the scores of messages until each has an answer that lasts. `source` is a
    /// `SourceInput` where the server keeps positions. Returns the faults of messages, the first of
    /// each.
    async fn submit(
        &self,
        readings: &[Reading],
        source: Option<&str>,
    ) -> Result<BTreeMap<usize, Fault>> {
        let mut faults: BTreeMap<usize, Fault> = BTreeMap::new();
        for (index, reading) in readings.iter().enumerate() {
            if let Some(fault) = &reading.fault {
                self.metrics.rejected.inc();
                faults.insert(index, fault.clone());
            }
        }
        let scores = readings.iter().enumerate();
        let mut left: Vec<Numbered<'_>> = scores
            .flat_map(|(index, reading)| reading.scores.iter().map(move |score| (index, score)))
            .collect();
        let mut pauses = Pauses(PAUSE_MIN);
        while !left.is_empty() {
            let requests = requests(&left);
            let runs: Vec<&[Vec<Numbered<'_>>]> = match source {
                Some(_) => requests.chunk_by(|one, next| board(one) == board(next)).collect(),
                None => requests.chunks(1).collect(),
            };
            let answered: Vec<Vec<(&[Numbered<'_>], Vec<Answer>)>> =
                futures::stream::iter(runs.into_iter().map(|run| self.send_run(run, source)))
                    .buffered(REQUESTS_AT_ONCE)
                    .try_collect()
                    .await?;
            let answered = answered.into_iter().flatten();
            let mut again = vec![];
            let mut why = None;
            for (&(index, score), answer) in
                answered.flat_map(|(request, answers)| request.iter().zip(answers))
            {
                match answer {
                    Answer::Counted(counted) => self.metrics.count(counted),
                    Answer::Refused(fault) => {
                        self.metrics.rejected.inc();
                        faults.entry(index).or_insert_with(|| of_item(fault, score.item));
                    }
                    Answer::Again(fault) => {
                        self.metrics.again.inc();
                        why = Some(fault.reason);
                        again.push((index, score));
                    }
                }
            }
            left = again;
            match why {
                Some(why) => {
                    self.metrics.paused.pause(why);
                    pauses.rest().await;
                }
                None => self.metrics.paused.go_on(),
            }
        }
        Ok(faults)
    }

    /// Sends requests one after the other, and none after one whose scores have to be sent again: a
    /// later position would stand for theirs.
    async fn send_run<'r, 's>(
        &self,
        requests: &'r [Vec<Numbered<'s>>],
        source: Option<&str>,
    ) -> Result<Vec<(&'r [Numbered<'s>], Vec<Answer>)>> {
        let mut answered: Vec<(&[Numbered<'s>], Vec<Answer>)> = vec![];
        let mut again = None;
        for request in requests {
            let answers = match &again {
                Some(again) => vec![Answer::clone(again); request.len()],
                None => {
                    let scores: Vec<&Score> = request.iter().map(|(_, score)| *score).collect();
                    self.server.submit(&scores[0].board, &scores, source).await?
                }
            };
            again = answers.iter().find(|answer| matches!(answer, Answer::Again(_))).cloned();
            answered.push((request, answers));
        }
        Ok(answered)
    }
}

impl Pauses {
    async fn rest(&mut self) {
        sleep(self.0).await;
        self.0 = (self.0 * 2).min(PAUSE_MAX);
    }
}

/// A fault of one score of an array names it.
fn of_item(fault: Fault, item: Option<usize>) -> Fault {
    match item {
        None => fault,
        Some(index) => {
            Fault { reason: shortened(&format!("score {index}: {}", fault.reason)), ..fault }
        }
    }
}
