//! The states that an engine wrote, as files of a window each, read partition by partition. Nothing
//! in them is believed: every row is checked against the plan and the board's rules.

mod rows;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use polars::prelude::{
    DataFrame, DataType, Expr, IntoLazy, LazyFrame, NamedFrom, PlRefPath, RowIndex,
    ScanArgsParquet, Series, SortMultipleOptions, StringChunked, UnionArgs, col, concat, lit,
};
use ranking::board::Board;
use ranking::id::PartitionNo;
use ranking::window::Window;

use super::plan::{Plan, WindowPeriods};
use super::sql::directory;
use crate::display_path;
use crate::frame::counted::in_parts;
use crate::frame::fold::keys::key;
use crate::frame::fold::sums::decayed;
use crate::frame::sorted::Folded;

/// The columns of states: their names, and true for those of numbers.
const STATES: [(&str, bool); 8] = [
    ("segment", false),
    ("period", false),
    ("key", true),
    ("member", false),
    ("score", true),
    ("seq", true),
    ("events", true),
    ("partition", true),
];

/// The columns of a decaying window's rows.
const IN_ORDER: [(&str, bool); 7] = [
    ("segment", false),
    ("member", false),
    ("ord", true),
    ("score", true),
    ("at_ms", true),
    ("seq", true),
    ("partition", true),
];

/// The states of one window.
pub struct WindowStates<'a> {
    plan: &'a Plan,
    board: &'a Board,
    window: Window,
    periods: WindowPeriods,
    places: HashMap<String, usize>,
    files: Vec<PathBuf>,
}

/// The checked states of a partition.
pub struct Checked {
    /// The states, in the order of Redis.
    pub folded: Folded,
    /// The number of entries of everyone.
    pub everyone: u64,
}

/// The entries of some members, by segment, the place of the period, and member.
pub type Entries = HashMap<(String, usize, String), Entry>;

/// An entry of an engine.
pub struct Entry {
    /// The rank key.
    pub key: i64,
    /// The seq of the member's last event.
    pub seq: i64,
    /// The file and the row, for people.
    pub at: String,
}

impl<'a> WindowStates<'a> {
    /// Finds the files of a window, and checks their columns.
    ///
    /// # Errors
    /// If there are none although the window has events, or one is broken or has other columns; the
    /// message names it.
    pub fn find(plan: &'a Plan, board: &'a Board, window: Window, dir: &Path) -> Result<Self> {
        let dir = dir.join(directory(window));
        let mut files = vec![];
        if dir.exists() {
            find_files(&dir, &mut files)
                .with_context(|| format!("{} cannot be read", display_path(&dir)))?;
        }
        files.sort();
        ensure!(
            !files.is_empty() || plan.totals_of(window)?.is_empty(),
            "{} has no file that ends with .parquet: expected the states of window {window}",
            display_path(&dir)
        );
        let periods = plan.periods_of(board, window)?;
        let places = periods.periods.iter().enumerate().filter(|(place, _)| periods.open[*place]);
        let places = places.map(|(place, period)| (period.label.clone(), place)).collect();
        let states = Self { plan, board, window, periods, places, files };
        for file in 0..states.files.len() {
            states.check_columns(file)?;
        }
        Ok(states)
    }

    /// Checks every state of a partition, and returns them.
    ///
    /// # Errors
    /// If a row cannot be right, or they do not add up to what the plan has; the message names the
    /// file and the row, or the total.
    pub fn of_partition(&self, partition: PartitionNo) -> Result<Checked> {
        let of = col("partition").eq(lit(i64::from(partition.0)));
        let mut frame = self.read(|rows| rows.filter(of.clone()))?;
        let mut totals = rows::Totals::default();
        if let Some(half_life) = self.window.half_life() {
            self.check_in_order(&frame, partition, &mut totals)?;
            let sums = decayed(frame.lazy(), half_life)?;
            frame = self.with_key(sums)?;
        } else {
            self.check_states(&frame, partition, &mut totals)?;
        }
        self.check_totals(partition, &totals)?;
        let wanted = ["member", "segment", "period", "key", "score", "seq"];
        let frame = frame.select(wanted)?;
        let folded = Folded { periods: self.periods.periods.clone(), frame };
        Ok(Checked { folded, everyone: totals.everyone })
    }

    /// Checks that all rows name partitions of the board.
    ///
    /// # Errors
    /// If one does not; the message names the file and the row.
    pub fn check_partitions(&self, partitions: &[PartitionNo]) -> Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        let is_of = |no: &PartitionNo| col("partition").eq(lit(i64::from(no.0)));
        let known = partitions.iter().map(is_of).reduce(Expr::or).unwrap_or(lit(false));
        let others = |rows: LazyFrame| {
            rows.filter(known.clone().not().or(col("partition").is_null())).limit(1)
        };
        let frame = self.read(others)?;
        if frame.height() > 0 {
            bail!("{}: it names a partition that the board has no shard in", self.row(&frame, 0));
        }
        Ok(())
    }

    /// The entries of the members that meet a condition.
    pub fn drawn(&self, is_drawn: Expr) -> Result<Entries> {
        let mut frame = self.read(|rows| rows.filter(is_drawn.clone()))?;
        let is_decaying = self.window.half_life().is_some();
        if let Some(half_life) = self.window.half_life() {
            frame = self.with_key(decayed(frame.lazy(), half_life)?)?;
        }
        let number = |name: &str| -> Result<_> { Ok(frame.column(name)?.i64()?.clone()) };
        let (keys, places, seqs) = (number("key")?, number("period")?, number("seq")?);
        let (segments, members) = (frame.column("segment")?.str()?, frame.column("member")?.str()?);
        let mut found = HashMap::new();
        for row in 0..frame.height() {
            let gap = || "a state is null";
            let text = |texts: &StringChunked| texts.get(row).map(str::to_owned).with_context(gap);
            let place = usize::try_from(places.get(row).with_context(gap)?)?;
            let at = match is_decaying {
                true => directory(self.window),
                false => self.row(&frame, row),
            };
            let key = keys.get(row).with_context(gap)?;
            let seq = seqs.get(row).with_context(gap)?;
            found.insert((text(segments)?, place, text(members)?), Entry { key, seq, at });
        }
        Ok(found)
    }

    /// The periods of the window.
    pub fn periods(&self) -> &WindowPeriods {
        &self.periods
    }

    /// The rows of the files that `choose` leaves, sorted, with the places of their periods.
    fn read(&self, choose: impl Fn(LazyFrame) -> LazyFrame) -> Result<DataFrame> {
        let columns = self.columns();
        let mut frames = vec![];
        for file in 0..self.files.len() {
            frames.push(choose(self.scan(file)?));
        }
        if frames.is_empty() {
            let empty = columns.iter().map(|(name, is_number)| match is_number {
                true => Series::new((*name).into(), Vec::<i64>::new()).into(),
                false => Series::new((*name).into(), Vec::<String>::new()).into(),
            });
            let mut empty: Vec<_> = empty.collect();
            empty.push(Series::new("file".into(), Vec::<i64>::new()).into());
            empty.push(Series::new("row".into(), Vec::<i64>::new()).into());
            frames.push(DataFrame::new_infer_height(empty)?.lazy());
        }
        let frame = match in_parts(concat(&frames, UnionArgs::default())?) {
            Ok(frame) => frame,
            Err(error) => {
                // The one that cannot be read is named.
                for (file, frame) in frames.into_iter().enumerate() {
                    in_parts(frame).with_context(|| {
                        format!("{} is broken", display_path(&self.files[file]))
                    })?;
                }
                return Err(error);
            }
        };
        let frame = self.with_places(frame)?;
        let by: &[&str] = match self.window.half_life() {
            Some(_) => &["member", "segment", "order"],
            None => &["segment", "period", "key", "member"],
        };
        let mut frame = frame.sort(by.iter().copied(), SortMultipleOptions::default())?;
        frame.rechunk_mut();
        Ok(frame)
    }

    /// The places of periods in place of their labels.
    fn with_places(&self, mut frame: DataFrame) -> Result<DataFrame> {
        if self.window.half_life().is_some() {
            frame.rename("ord", "order".into())?;
            let places = Series::new("period".into(), vec![0_i64; frame.height()]);
            frame.with_column(places.into())?;
            return Ok(frame);
        }
        let labels = frame.column("period")?.str()?;
        let mut places = Vec::with_capacity(frame.height());
        for row in 0..frame.height() {
            let label = labels.get(row);
            let place = label.and_then(|label| self.places.get(label));
            places.push(*place.with_context(|| {
                format!(
                    "{}: window {} has no open period {:?} in the plan",
                    self.row(&frame, row),
                    self.window,
                    label.unwrap_or_default()
                )
            })? as i64);
        }
        frame.with_column(Series::new("period".into(), places).into())?;
        Ok(frame)
    }

    /// The sums of a decaying window with their keys, sorted.
    fn with_key(&self, sums: LazyFrame) -> Result<DataFrame> {
        let key = key(self.board, self.window, col("score"), col("tick"));
        let by = ["segment", "period", "key", "member"];
        let sorted = sums.with_column(key.alias("key")).sort(by, SortMultipleOptions::default());
        let mut frame = in_parts(sorted)?;
        frame.rechunk_mut();
        Ok(frame)
    }

    fn columns(&self) -> &'static [(&'static str, bool)] {
        match self.window.half_life() {
            Some(_) => &IN_ORDER,
            None => &STATES,
        }
    }

    fn check_columns(&self, file: usize) -> Result<()> {
        let path = display_path(&self.files[file]);
        let mut frame = self.scan_raw(file)?;
        let schema = frame.collect_schema();
        let schema = schema.with_context(|| format!("{path} is broken: is it whole?"))?;
        for (name, is_number) in self.columns() {
            let kind = schema.get(name).with_context(|| {
                let names: Vec<&str> = self.columns().iter().map(|(name, _)| *name).collect();
                format!("{path} has no column {name}: expected {}", names.join(", "))
            })?;
            let (fits, expected) = match is_number {
                true => (matches!(kind, DataType::Int32 | DataType::Int64), "whole numbers"),
                false => (*kind == DataType::String, "texts"),
            };
            ensure!(fits, "{path} has {kind} in the column {name}: expected {expected}");
        }
        Ok(())
    }

    /// A file with the columns of states, its number as `file`, and the numbers of its rows.
    fn scan(&self, file: usize) -> Result<LazyFrame> {
        let column = |(name, is_number): &(&str, bool)| match is_number {
            true => col(*name).cast(DataType::Int64),
            false => col(*name),
        };
        let mut columns: Vec<Expr> = self.columns().iter().map(column).collect();
        columns.push(lit(file as i64).cast(DataType::Int64).alias("file"));
        columns.push(col("row").cast(DataType::Int64));
        Ok(self.scan_raw(file)?.select(columns))
    }

    fn scan_raw(&self, file: usize) -> Result<LazyFrame> {
        let path = self.files[file].to_str().context("the path of a file is not UTF-8")?;
        Ok(LazyFrame::scan_parquet(
            PlRefPath::new(path),
            ScanArgsParquet {
                glob: false,
                row_index: Some(RowIndex { name: "row".into(), offset: 1 }),
                ..ScanArgsParquet::default()
            },
        )?)
    }

    /// The file and the row of a row, for people.
    fn row(&self, frame: &DataFrame, row: usize) -> String {
        let number = |name: &str| {
            let column = frame.column(name).ok().and_then(|column| column.i64().ok());
            column.and_then(|column| column.get(row)).unwrap_or_default()
        };
        let file = self.files.get(number("file").unsigned_abs() as usize);
        let file = file.map_or_else(String::new, |path| display_path(path));
        format!("{file}, row {}", number("row"))
    }
}

/// The files of a directory and of those within it that end with `.parquet`; engines give names
/// that begin with an underscore or a dot to files of their own.
fn find_files(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(['_', '.']) {
            continue;
        }
        if path.is_dir() {
            find_files(&path, files)?;
        } else if name.ends_with(".parquet") {
            files.push(path);
        }
    }
    Ok(())
}
