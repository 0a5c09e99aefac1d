//! The pictures of a report, as SVG.

use std::ops::Range;

use anyhow::{Context, Result};
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Rectangle};
use plotters::prelude::SVGBackend;
use plotters::series::{AreaSeries, LineSeries};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoTextStyle, RGBColor, TextStyle};

use super::figures::Figures;
use super::labels::{compact, grouped, shortened};

/// The width of a picture, in its own units; the page scales it.
const WIDTH: u32 = 960;

const INK: RGBColor = RGBColor(59, 68, 75);
const FAINT: RGBColor = RGBColor(226, 230, 232);
const GREEN: RGBColor = RGBColor(47, 121, 86);
const AMBER: RGBColor = RGBColor(201, 126, 34);

/// Line colors that color-blind readers can tell apart (Okabe and Ito), and darker variants of
/// them.
const LINES: [RGBColor; 10] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
    RGBColor(120, 60, 160),
    RGBColor(140, 100, 30),
    RGBColor(170, 20, 50),
];

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plane = Cartesian2d<Axis, Axis>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Plane>;

/// An axis: its ends, its labeled ticks and its title.
#[derive(Clone)]
struct Axis {
    ends: Range<f64>,
    ticks: Vec<(f64, String)>,
    title: &'static str,
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (low, high): (i32, i32)) -> i32 {
        let share = (value - self.ends.start) / (self.ends.end - self.ends.start);
        low + (f64::from(high - low) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // Light points lie between the ticks: there are none.
        if hint.weight().allow_light_points() {
            return vec![];
        }
        self.ticks.iter().map(|(place, _)| *place).collect()
    }

    fn range(&self) -> Range<f64> {
        self.ends.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.ticks.iter().find(|(place, _)| place == value);
        tick.map(|(_, label)| label.clone()).unwrap_or_default()
    }
}

/// The height of a chart, and the room at its sides.
struct Room {
    height: u32,
    left: u32,
    right: u32,
}

/// The number of members by score.
pub(crate) fn distribution(figures: &Figures) -> Result<String> {
    let buckets = &figures.scores.buckets;
    let bounds = buckets.iter().map(|bucket| &bucket.from);
    let bounds = bounds.chain(buckets.last().map(|bucket| &bucket.to));
    let bounds: Vec<(f64, String)> =
        bounds.zip(0_u32..).map(|(bound, index)| (f64::from(index), compact(bound))).collect();
    let x = Axis { ends: 0.0..buckets.len() as f64, ticks: every(&bounds, 10), title: "score" };
    let counts: Vec<usize> = buckets.iter().map(|bucket| bucket.count).collect();
    bars(&x, &counts, "members")
}

/// The number of events in each period.
pub(crate) fn activity(figures: &Figures) -> Result<String> {
    let periods = &figures.activity.periods;
    let counts: Vec<usize> = periods.iter().map(|period| period.events).collect();
    bars(&time(figures), &counts, "events")
}

/// The number of members at the end of each period, and the number active in it.
pub(crate) fn growth(figures: &Figures) -> Result<String> {
    let periods = &figures.activity.periods;
    let points = |count: &dyn Fn(usize) -> usize| -> Vec<(f64, f64)> {
        (0..periods.len()).map(|index| (index as f64 + 0.5, count(index) as f64)).collect()
    };
    let members = points(&|index| periods[index].members);
    let active = points(&|index| periods[index].active);
    let y = counts_axis(figures.members, "members");
    let room = Room { height: 260, left: 70, right: 110 };
    picture(&room, &time(figures), &y, |canvas, chart| {
        chart.draw_series(
            AreaSeries::new(members.clone(), 0.0, GREEN.mix(0.18))
                .border_style(GREEN.stroke_width(2)),
        )?;
        chart.draw_series(LineSeries::new(active.clone(), AMBER.stroke_width(2)))?;
        let ends = [("in all", &members, GREEN), ("active", &active, AMBER)];
        let mut labels: Vec<(i32, &str, RGBColor)> = vec![];
        for (label, points, color) in ends {
            let end = points.last().context("a report has a period")?;
            labels.push((chart.backend_coord(end).1, label, color));
        }
        // Labels must not overlap.
        labels[1].0 = labels[1].0.max(labels[0].0 + 18);
        for (y, label, color) in labels {
            let style = style(14, &color, HPos::Left);
            canvas.draw_text(label, &style, (WIDTH as i32 - 104, y))?;
        }
        Ok(())
    })
}

/// The ranks of the present leaders over time.
pub(crate) fn movement(figures: &Figures) -> Result<String> {
    let movement = &figures.movement;
    let ranks = movement.members.iter().flat_map(|moved| &moved.ranks);
    let worst = ranks.flatten().copied().max().unwrap_or(1);
    let tens = (1..).map(|power| 10_usize.pow(power));
    let marks = tens.flat_map(|ten| [ten, 2 * ten, 5 * ten]);
    let marks = (1..=10).chain(marks.skip(1)).take_while(|&mark| mark <= worst);
    let y = Axis {
        ends: -(height_of(worst) + 0.6)..-0.4,
        ticks: marks.map(|mark| (-height_of(mark), compact(&mark.to_string()))).collect(),
        title: "rank",
    };
    let room = Room { height: 420, left: 70, right: 190 };
    picture(&room, &time(figures), &y, |canvas, chart| {
        for (moved, color) in movement.members.iter().zip(LINES) {
            let places = movement.periods.iter().zip(&moved.ranks);
            let points: Vec<(f64, f64)> = places
                .filter_map(|(&period, rank)| {
                    let x = (period as f64 + 1.0).min(figures.activity.periods.len() as f64);
                    Some((x, -height_of((*rank)?)))
                })
                .collect();
            let Some(&end) = points.last() else { continue };
            let first = points.first().copied();
            chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?;
            let ends = [first, Some(end)].into_iter().flatten();
            chart.draw_series(ends.map(|point| Circle::new(point, 3, color.filled())))?;
            let (x, y) = chart.backend_coord(&end);
            let name = shortened(&moved.member, 22);
            canvas.draw_text(&name, &style(14, &color, HPos::Left), (x + 10, y))?;
        }
        Ok(())
    })
}

/// The scores that most members share.
pub(crate) fn ties(figures: &Figures) -> Result<String> {
    let largest = &figures.ties.largest;
    let most = largest.iter().map(|tie| tie.members).max().unwrap_or(1);
    let y = Axis {
        ends: -(largest.len() as f64)..0.0,
        ticks: largest
            .iter()
            .zip(0_u32..)
            .map(|(tie, index)| (-0.5 - f64::from(index), grouped_score(&tie.score)))
            .collect(),
        title: "score",
    };
    let x = counts_axis(most, "members who have it");
    let room = Room { height: 70 + 26 * largest.len() as u32, left: 130, right: 70 };
    picture(&room, &x, &y, |canvas, chart| {
        for (tie, index) in largest.iter().zip(0_u32..) {
            let (top, end) = (-f64::from(index), tie.members as f64);
            let bar = [(0.0, top - 0.18), (end, top - 0.82)];
            chart.draw_series([Rectangle::new(bar, GREEN.filled())])?;
            let (x, y) = chart.backend_coord(&(end, top - 0.5));
            let label = compact(&tie.members.to_string());
            canvas.draw_text(&label, &style(14, &INK, HPos::Left), (x + 6, y))?;
        }
        Ok(())
    })
}

/// The share of all points and events that the top members have.
pub(crate) fn share(figures: &Figures) -> Result<String> {
    let share = &figures.share;
    let lowest = (100.0 / figures.members as f64).clamp(0.001, 10.0);
    let across = |percentage: f64| percentage.max(lowest).log10();
    let percent = |value: f64| format!("{value} %");
    let marks = [0.001, 0.01, 0.1, 1.0, 10.0, 100.0];
    let x = Axis {
        ends: across(lowest)..2.0,
        ticks: marks
            .into_iter()
            .filter(|&mark| mark >= lowest)
            .map(|mark| (across(mark), percent(mark)))
            .collect(),
        title: "of the members, the best or most active first",
    };
    let y = Axis {
        ends: 0.0..104.0,
        ticks: [0.0, 25.0, 50.0, 75.0, 100.0].map(|mark| (mark, percent(mark))).into(),
        title: "of all",
    };
    let room = Room { height: 340, left: 76, right: 30 };
    picture(&room, &x, &y, |canvas, chart| {
        let even = |step: u32| {
            let x = across(lowest) + (2.0 - across(lowest)) * f64::from(step) / 100.0;
            (x, libm::pow(10.0, x))
        };
        let even = LineSeries::new((0..=100).map(even), INK.mix(0.3).stroke_width(2));
        chart.draw_series(even)?;
        if lowest <= 1.0 {
            let mark = PathElement::new([(0.0, 0.0), (0.0, 100.0)], INK.mix(0.35));
            chart.draw_series([mark])?;
        }
        let mut legend = 34;
        for (name, curve, color) in
            [("points", &share.scores_curve, GREEN), ("events", &share.events_curve, AMBER)]
        {
            if curve.is_empty() {
                continue;
            }
            let points = curve.iter().map(|&(x, y)| (across(x), y));
            chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?;
            let line = PathElement::new([(96, legend), (122, legend)], color.stroke_width(2));
            canvas.draw(&line)?;
            canvas.draw_text(name, &style(14, &color, HPos::Left), (130, legend))?;
            legend += 20;
        }
        Ok(())
    })
}

/// How far down a rank is drawn: the first ten have most of the room.
fn height_of(rank: usize) -> f64 {
    match rank {
        1..=10 => rank as f64,
        _ => 10.0 + 4.0 * (rank as f64 / 10.0).log10(),
    }
}

/// The periods of the activity, each one unit wide.
fn time(figures: &Figures) -> Axis {
    let periods = &figures.activity.periods;
    let labels: Vec<(f64, String)> = periods
        .iter()
        .zip(0_u32..)
        .map(|(period, index)| (f64::from(index) + 0.5, period.period.clone()))
        .collect();
    Axis { ends: 0.0..periods.len() as f64, ticks: every(&labels, 8), title: "" }
}

/// At most `count` of the ticks, evenly spaced, the first included.
fn every(ticks: &[(f64, String)], count: usize) -> Vec<(f64, String)> {
    let step = ticks.len().div_ceil(count).max(1);
    ticks.iter().step_by(step).cloned().collect()
}

/// An axis of counts from 0, with round numbers.
fn counts_axis(most: usize, title: &'static str) -> Axis {
    let steps = (0..).map(|power| 10_usize.pow(power));
    let mut steps = steps.flat_map(|ten| [ten, 2 * ten, 5 * ten]);
    let step = steps.find(|step| most / step <= 4).unwrap_or(most);
    let ticks = (0..=most / step).map(|count| {
        let mark = count * step;
        (mark as f64, compact(&mark.to_string()))
    });
    Axis { ends: 0.0..most as f64 * 1.06, ticks: ticks.collect(), title }
}

fn bars(x: &Axis, counts: &[usize], title: &'static str) -> Result<String> {
    let most = counts.iter().copied().max().unwrap_or(1);
    let room = Room { height: 260, left: 70, right: 30 };
    // Many bars are drawn without gaps.
    let gap = if counts.len() > 120 { 0.0 } else { 0.08 };
    picture(&room, x, &counts_axis(most, title), |_, chart| {
        let bars = counts.iter().zip(0_u32..).filter(|(count, _)| **count > 0);
        let bars = bars.map(|(&count, index)| {
            let left = f64::from(index);
            let corners = [(left + gap, count as f64), (left + 1.0 - gap, 0.0)];
            Rectangle::new(corners, GREEN.filled())
        });
        chart.draw_series(bars)?;
        Ok(())
    })
}

/// A picture with axes, drawn by `draw`.
fn picture(
    room: &Room,
    x: &Axis,
    y: &Axis,
    draw: impl FnOnce(&Canvas<'_>, &mut Chart<'_, '_>) -> Result<()>,
) -> Result<String> {
    let mut svg = String::new();
    {
        let canvas = SVGBackend::with_string(&mut svg, (WIDTH, room.height)).into_drawing_area();
        let mut chart = ChartBuilder::on(&canvas)
            .margin_top(10)
            .margin_left(8)
            .margin_right(room.right)
            .x_label_area_size(if x.title.is_empty() { 30 } else { 48 })
            .y_label_area_size(room.left)
            .build_cartesian_2d(x.clone(), y.clone())?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(FAINT)
            .axis_style(INK.mix(0.5))
            .label_style(("sans-serif", 14, &INK))
            .x_desc(x.title)
            .y_desc(y.title)
            .draw()?;
        draw(&canvas, &mut chart)?;
        canvas.present()?;
    }
    Ok(svg)
}

fn style(size: i32, color: &RGBColor, across: HPos) -> TextStyle<'_> {
    let style = ("sans-serif", size).into_text_style(&(WIDTH, WIDTH));
    style.color(color).pos(Pos::new(across, VPos::Center))
}

fn grouped_score(score: &str) -> String {
    shortened(&grouped(score), 16)
}
