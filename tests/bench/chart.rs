//! A chart of latency over the number of members.

use std::error::Error;
use std::path::Path;

use plotters::prelude::{
    BLACK, ChartBuilder, IntoDrawingArea, IntoLogRange, LineSeries, PathElement, RGBColor,
    SVGBackend, SeriesLabelPosition, WHITE,
};
use plotters::style::Color;

/// A line: its name, and the median of p50 in ms for each number of members.
pub(crate) type Line = (String, Vec<(f64, f64)>);

const COLORS: [RGBColor; 6] = [
    RGBColor(31, 119, 180),
    RGBColor(255, 127, 14),
    RGBColor(44, 160, 44),
    RGBColor(214, 39, 40),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
];

/// Draws lines into an SVG file, with logarithmic axes.
pub(crate) fn draw(path: &Path, lines: &[Line]) -> Result<(), Box<dyn Error>> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let ends = |of: fn(&(f64, f64)) -> f64| {
        let low = points().map(of).fold(f64::INFINITY, f64::min);
        let high = points().map(of).fold(0.0, f64::max);
        low / 1.5..high * 1.5
    };
    let area = SVGBackend::new(path, (800, 480)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(ends(|point| point.0).log_scale(), ends(|point| point.1).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("members")
        .y_desc("p50, ms")
        .x_label_formatter(&|members| format!("{members:.0}"))
        .draw()?;
    for ((name, points), color) in lines.iter().zip(COLORS.iter().cycle()) {
        chart
            .draw_series(LineSeries::new(points.clone(), color.stroke_width(2)).point_size(3))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .border_style(BLACK.mix(0.3))
        .background_style(WHITE.mix(0.8))
        .draw()?;
    area.present()?;
    Ok(())
}
