//! The rows of a Parquet file, a part of a row group at a time, once its footer is within bounds.
//! Rows are counted from 1.

use std::borrow::Cow;
use std::fs::File;

use anyhow::{Context, Result, bail, ensure};
use polars::prelude::{AnyValue, ArrowDataType, ParquetReader, SerReader, TimeUnit};
use ranking::score::json::{NUMBER_DIGITS_MAX, check_digits};

use super::parquet_bounds::decodable_parts;
use super::{At, Fields, RowChecker};
use crate::display_path;
use crate::import::input_file::parquet_rows_max;

/// The most digits of a score in a column of 32-bit floats.
const FLOAT32_DIGITS_MAX: usize = 6;

/// Hands every row with its number to `rows`.
///
/// # Errors
/// If the file cannot be read, lacks a column, or has a column of an unsupported type.
pub(crate) fn read(rows: &mut RowChecker<'_>) -> Result<()> {
    let cannot = format!("{} cannot be read", display_path(rows.path()));
    let file = File::open(rows.path()).with_context(|| cannot.clone())?;
    let mut reader = ParquetReader::new(file.try_clone()?);
    let schema = reader.schema().with_context(|| cannot.clone())?;
    let metadata = reader.get_metadata().with_context(|| cannot.clone())?.clone();
    rows.check_columns(|name| schema.contains(name))?;
    let mut columns = vec![];
    for name in rows.columns() {
        if let Some(field) = schema.get(name) {
            check_type(name, &field.dtype, name == rows.score_column())?;
            columns.push(name.to_owned());
        }
    }
    let score_column = rows.score_column().to_owned();
    let rows_max = parquet_rows_max(rows.arguments(), file.metadata()?.len());
    let parts = decodable_parts(rows.path(), &metadata, &columns, rows_max)?;
    let mut before = 0;
    for part in parts {
        let mut reader = ParquetReader::new(file.try_clone()?)
            .with_columns(Some(columns.clone()))
            .with_slice(Some((before, part)));
        reader.set_metadata(metadata.clone());
        let frame = reader.finish().with_context(|| cannot.clone())?;
        let column = |name: &str| frame.column(name).ok();
        let columns = ["member", &score_column, "at", "board", "event_id", "region", "metadata"];
        let columns = columns.map(column);
        for row in 0..frame.height() {
            let values = columns.map(|column| match column {
                Some(column) => column.get(row),
                None => Ok(AnyValue::Null),
            });
            let [Ok(member), Ok(score), Ok(at), Ok(board), Ok(event_id), Ok(region), Ok(metadata)] =
                &values
            else {
                bail!("{cannot}: a column is shorter than the others");
            };
            let fields = score_text(score, &score_column);
            let line = (before + row + 1) as u64;
            let fields = fields.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"));
            let fields = fields.and_then(|score| {
                Ok(Fields {
                    member: member.get_str().context("it has no member")?,
                    score,
                    at: at_of(at)?,
                    board: board.get_str(),
                    event_id: event_id.get_str(),
                    region: region.get_str(),
                    metadata: metadata.get_str(),
                })
            });
            rows.take(line, fields)?;
        }
        before += part;
    }
    Ok(())
}

/// Checks that a column has a supported type.
fn check_type(name: &str, dtype: &ArrowDataType, is_score: bool) -> Result<()> {
    use ArrowDataType as Type;
    let is_text = matches!(
        dtype,
        Type::Utf8 | Type::LargeUtf8 | Type::Utf8View | Type::Dictionary(..) | Type::Null
    );
    let is_integer = matches!(dtype, Type::Int32 | Type::Int64 | Type::UInt32 | Type::UInt64);
    let (fits, accepted) = if is_score {
        let exact = matches!(dtype, Type::Decimal(..) | Type::Float32 | Type::Float64);
        (is_text || is_integer || exact, "text, integers of 32 or 64 bits, decimals or floats")
    } else if name == "at" {
        (
            is_text || is_integer || matches!(dtype, Type::Timestamp(..)),
            "timestamps, text or integers (Unix seconds) of 32 or 64 bits",
        )
    } else {
        (is_text, "text")
    };
    ensure!(fits, "invalid type {dtype:?} of column {name}: expected {accepted}");
    Ok(())
}

/// A score as an exact decimal. A float is accepted if it has so few digits that it can only have
/// come from that decimal.
fn score_text<'a>(value: &'a AnyValue<'_>, name: &str) -> Result<Cow<'a, str>> {
    let float = |text: String, digits_max: usize| {
        check_digits(&text, digits_max)?;
        Ok(Cow::Owned(text))
    };
    match value {
        AnyValue::Null => bail!("it has no {name}"),
        AnyValue::Float64(float64) => float(float64.to_string(), NUMBER_DIGITS_MAX),
        AnyValue::Float32(float32) => float(float32.to_string(), FLOAT32_DIGITS_MAX),
        AnyValue::Decimal(units, _, scale) => Ok(Cow::Owned(decimal(*units, *scale))),
        AnyValue::Int32(number) => Ok(Cow::Owned(number.to_string())),
        AnyValue::Int64(number) => Ok(Cow::Owned(number.to_string())),
        AnyValue::UInt32(number) => Ok(Cow::Owned(number.to_string())),
        AnyValue::UInt64(number) => Ok(Cow::Owned(number.to_string())),
        other => Ok(Cow::Borrowed(other.get_str().with_context(|| format!("it has no {name}"))?)),
    }
}

/// The decimal that is `units` times 10 to the power of -`scale`.
fn decimal(units: i128, scale: usize) -> String {
    let sign = if units < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", units.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let point = if scale == 0 { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

fn at_of<'a>(value: &'a AnyValue<'_>) -> Result<At<'a>> {
    let seconds = |seconds: i64| {
        let at_ms = seconds.checked_mul(1000);
        at_ms.map(At::Ms).context("at is out of range")
    };
    match value {
        AnyValue::Null => bail!("it has no at"),
        AnyValue::Datetime(at, unit, _) => Ok(At::Ms(match unit {
            TimeUnit::Nanoseconds => at.div_euclid(1_000_000),
            TimeUnit::Microseconds => at.div_euclid(1000),
            TimeUnit::Milliseconds => *at,
        })),
        AnyValue::Int32(number) => seconds((*number).into()),
        AnyValue::Int64(number) => seconds(*number),
        AnyValue::UInt32(number) => seconds((*number).into()),
        AnyValue::UInt64(number) => seconds(i64::try_from(*number).context("at is out of range")?),
        other => Ok(At::Text(other.get_str().context("it has no at")?)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Rows, read_rows};
    use super::*;
    use crate::import::Arguments;
    use polars::prelude::{
        Column, DataFrame, DataType, Int64Chunked, IntoSeries, NamedFrom, NewChunkedArray,
        ParquetWriter, Series,
    };
    use ranking::board::rules::{Rules, RulesInput};
    use ranking::board::{Board, Policy, TieBreak};
    use ranking::id::BoardNo;
    use std::collections::HashMap;

    fn column<T, Values: AsRef<[T]>>(name: &str, values: Values) -> Column
    where
        Series: NamedFrom<Values, [T]>,
        T: 'static,
    {
        Series::new(name.into(), values).into()
    }

    /// Reads a file of these columns, in row groups of two rows, for a board with three decimals.
    fn read_columns(columns: Vec<Column>) -> Result<Rows> {
        read_groups(columns, 2)
    }

    fn read_groups(columns: Vec<Column>, group_rows: usize) -> Result<Rows> {
        let file = tempfile::Builder::new().suffix(".parquet").tempfile()?;
        let mut frame = DataFrame::new_infer_height(columns)?;
        ParquetWriter::new(file.as_file())
            .with_row_group_size(Some(group_rows))
            .finish(&mut frame)?;
        let rules = Rules::new(RulesInput {
            policy: Policy::Best,
            tie_break: TieBreak::Member,
            decimals: 3,
            min: -1_000_000,
            max: 1_000_000,
            ..Default::default()
        })?;
        let board = Board::new(BoardNo(1), rules);
        let arguments = Arguments {
            board: Some("b".to_owned()),
            bulk: false,
            score_column: "score".to_owned(),
            skip_bad: None,
            rows_max: None,
            file: file.path().to_owned(),
        };
        let boards = HashMap::from([("b".to_owned(), board)]);
        read_rows(&arguments, &boards, 2_000_000_000_000)
    }

    fn members() -> Column {
        column("member", ["ann", "bob", "cid", "dan", "eve"])
    }

    fn seconds() -> Column {
        column("at", [1_i64, 2, 3, 4, 5])
    }

    /// The rows' numbers, raw scores and times.
    fn taken(rows: &Rows) -> Vec<(u64, i64, Option<i64>)> {
        let taken = rows.good.iter().map(|row| {
            let submission = &row.submission;
            (row.line, submission.score, submission.at_ms)
        });
        taken.collect()
    }

    #[test]
    fn rows_of_every_group_are_taken_with_their_numbers_or_named_by_them() {
        let scores = column("score", [1.5, 0.25, 0.1 + 0.2, -7.0, 1.0 / 1024.0]);
        let rows = read_columns(vec![seconds(), scores, members()]).unwrap();
        let expected = [(1, 1500, Some(1000)), (2, 250, Some(2000)), (4, -7000, Some(4000))];
        assert_eq!(taken(&rows), expected);
        let bad: Vec<(u64, &str)> = rows.bad.iter().map(|row| (row.line, &*row.reason)).collect();
        assert_eq!((bad[0].0, bad[1].0, bad.len()), (3, 5, 2));
        assert!(bad[0].1.contains("more than 15 digits"), "{}", bad[0].1);
        assert!(bad[1].1.contains("has 10 decimals"), "{}", bad[1].1);
    }

    #[test]
    fn texts_decimals_and_timestamps_are_taken_as_they_are() {
        let units =
            Series::new("score".into(), [Some(12_500_i64), Some(-1), None, Some(7), Some(100)]);
        let units = units.cast(&DataType::Int128).unwrap();
        let scores = units.i128().unwrap().clone().into_decimal(18, 3).unwrap();
        let instants = Int64Chunked::from_slice("at".into(), &[1_000_999, 2_000_000, 3, -1, 5]);
        let instants = instants.into_datetime(TimeUnit::Microseconds, None);
        let regions = Series::new_null("region".into(), 5);
        let columns = vec![
            members(),
            scores.into_series().into(),
            instants.into_series().into(),
            regions.into(),
            column("event_id", ["a", "", "c", "d", "e"]),
        ];
        let rows = read_columns(columns).unwrap();
        assert_eq!(taken(&rows), [(1, 12_500, Some(1000)), (2, -1, Some(2000)), (5, 100, Some(0))]);
        let ids: Vec<String> = rows
            .good
            .iter()
            .filter_map(|row| row.submission.event_id.as_ref())
            .map(ToString::to_string)
            .collect();
        assert_eq!((&*ids[0], &*ids[2]), ("a", "e"));
        assert!(ids[1].starts_with("import-") && ids[1].ends_with("-2"), "{}", ids[1]);
        let reasons: Vec<&str> = rows.bad.iter().map(|row| &*row.reason).collect();
        assert_eq!(reasons, ["it has no score", "at is before 1970"]);

        let scores = column("score", ["1.250", "-2", "x", "3", "4"]);
        let times = column("at", ["1970-01-01T00:00:01Z", "2", "3", "4.5", "5"]);
        let rows = read_columns(vec![members(), scores, times]).unwrap();
        assert_eq!(
            taken(&rows),
            [(1, 1250, Some(1000)), (2, -2000, Some(2000)), (5, 4000, Some(5000))]
        );
    }

    #[test]
    fn a_small_file_of_very_many_equal_rows_is_refused() {
        let rows = 200_000;
        let refused = read_groups(
            vec![
                column("member", vec!["ann"; rows]),
                column("at", vec![1_i64; rows]),
                column("score", vec![1_i64; rows]),
            ],
            rows,
        );
        let Err(error) = refused else { panic!("a file of {rows} equal rows was read") };
        assert!(format!("{error:#}").contains("--rows-max"), "{error:#}");
    }

    #[test]
    fn a_column_of_another_type_is_refused_with_those_that_are_taken() {
        let flags = || column("score", [true, false, true, false, true]);
        let numbers = || column("member", [1_i64, 2, 3, 4, 5]);
        for (columns, reason) in [
            (
                vec![members(), seconds(), flags()],
                "expected text, integers of 32 or 64 bits, decimals or floats",
            ),
            (
                vec![numbers(), seconds(), column("score", [1_i64; 5])],
                "invalid type Int64 of column member: expected text",
            ),
            (
                vec![members(), column("at", [0.5; 5]), column("score", [1_i64; 5])],
                "expected timestamps, text or integers",
            ),
            (vec![members(), seconds()], "has no column score: expected member, score and at"),
        ] {
            let Err(error) = read_columns(columns) else {
                panic!("{reason} was expected");
            };
            assert!(format!("{error:#}").contains(reason), "{error:#}");
        }
    }

    #[test]
    fn a_score_is_the_exact_decimal_that_a_column_holds_or_refused() {
        let text = |value: AnyValue<'_>| score_text(&value, "score").ok().map(Cow::into_owned);
        for (value, expected) in [
            (AnyValue::Float64(0.1), Some("0.1")),
            (AnyValue::Float64(123_456_789_012.345), Some("123456789012.345")),
            (AnyValue::Float64(0.1 + 0.2), None),
            (AnyValue::Float64(9_007_199_254_740_991.0), None),
            (AnyValue::Float32(0.1), Some("0.1")),
            (AnyValue::Float32(16_777_216.0), None),
            (AnyValue::Decimal(-5, 38, 2), Some("-0.05")),
            (AnyValue::Decimal(1_200, 38, 2), Some("12.00")),
            (AnyValue::UInt64(u64::MAX), Some("18446744073709551615")),
            (AnyValue::String("9007199254740991"), Some("9007199254740991")),
            (AnyValue::Null, None),
        ] {
            assert_eq!(text(value.clone()).as_deref(), expected, "{value:?}");
        }
    }

    #[test]
    fn an_instant_is_rounded_down_to_its_millisecond() {
        let ms = |value: AnyValue<'_>| match at_of(&value) {
            Ok(At::Ms(at_ms)) => Some(at_ms),
            _ => None,
        };
        let instant = |at, unit| AnyValue::Datetime(at, unit, None);
        assert_eq!(ms(instant(1_999_999, TimeUnit::Nanoseconds)), Some(1));
        assert_eq!(ms(instant(-1, TimeUnit::Microseconds)), Some(-1));
        assert_eq!(ms(AnyValue::Int32(2)), Some(2000));
        assert_eq!(ms(AnyValue::UInt64(u64::MAX)), None);
        assert_eq!(ms(AnyValue::Null), None);
    }
}
