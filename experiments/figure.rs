//! One look for all figures: panels with lines, bands and points, drawn with plotters, the legend below.
//!
//! Colours are those of Okabe and Ito, which colour-blind readers tell apart; lines differ by marker or dash
//! too.

use crate::progress::say;
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

pub const COLOURS: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x4a, 0x4a, 0x4a),
];
const INK: RGBColor = RGBColor(0x1f, 0x29, 0x33);
const GRID: RGBColor = RGBColor(0xdd, 0xe2, 0xe8);
const GREY: RGBColor = RGBColor(0x8a, 0x94, 0xa0);

/// Where a series' look comes from.
#[derive(Clone, Copy, PartialEq)]
pub enum Look {
    /// A line; dashes if the flag says so.
    Line { colour: usize, dashed: bool },
    /// A line with a marker at every point.
    Marked { colour: usize, dashed: bool },
    /// Hollow markers without a line: what others found.
    Hollow { colour: usize },
    /// Black crosses: what was published.
    Published,
    /// A grey dashed line: a reference.
    Reference,
}

/// Points with a name; the same name in several panels is one entry of the legend.
pub struct Series {
    pub name: String,
    pub look: Look,
    pub points: Vec<(f64, f64)>,
    /// For each x, the lower and the upper end of an interval; may be empty.
    pub band: Vec<(f64, f64, f64)>,
}

impl Series {
    pub fn new(name: impl Into<String>, look: Look, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), look, points, band: Vec::new() }
    }
}

/// An axis: what it shows, in which unit, and from where to where.
pub struct Axis {
    pub label: &'static str,
    pub log: bool,
    /// The range; if none, that of the points.
    pub range: Option<(f64, f64)>,
    /// Numbers are shares, shown in percent.
    pub percent: bool,
}

impl Axis {
    pub fn linear(label: &'static str) -> Self {
        Self { label, log: false, range: None, percent: false }
    }
    pub fn log(label: &'static str) -> Self {
        Self { log: true, ..Self::linear(label) }
    }
    pub fn share(label: &'static str) -> Self {
        Self { percent: true, range: Some((0.0, 1.0)), ..Self::linear(label) }
    }
    pub fn between(self, from: f64, to: f64) -> Self {
        Self { range: Some((from, to)), ..self }
    }

    fn extent(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        if let Some(range) = self.range {
            return range;
        }
        let values = values.filter(|v| v.is_finite() && (!self.log || *v > 0.0));
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
        match (low <= high, self.log) {
            (false, _) => (1.0, 10.0),
            (_, true) if low == high => (low / 2.0, high * 2.0),
            (_, true) => (low / 1.15, high * 1.15),
            _ => (low.min(0.0), if high > low.min(0.0) { high * 1.05 } else { 1.0 }),
        }
    }

    fn ticks(&self, (low, high): (f64, f64)) -> Vec<f64> {
        if self.log {
            let decades = (high / low).log10();
            let steps: &[f64] = if decades < 2.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let every = if decades > 7.0 { 2 } else { 1 };
            return (low.log10().floor() as i32..=high.log10().ceil() as i32)
                .filter(|e| e % every == 0)
                .flat_map(|e| steps.iter().map(move |s| s * 10f64.powi(e)))
                .filter(|t| (low * 0.999..=high * 1.001).contains(t))
                .collect();
        }
        let raw = (high - low) / 5.0;
        let unit = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].iter().map(|s| s * unit).find(|s| *s >= raw * 0.99).unwrap_or(raw);
        ((low / step).ceil() as i64..=(high / step + 1e-9).floor() as i64).map(|i| i as f64 * step).collect()
    }

    fn tick_label(&self, value: f64) -> String {
        if self.percent { format!("{}%", trim(value * 100.0)) } else { short(value) }
    }
}

/// At most three digits after the point, and about three in all.
fn trim(value: f64) -> String {
    let places = (2 - value.abs().max(0.1).log10().floor() as i32).clamp(0, 3) as usize;
    let text = format!("{value:.places$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number with at most a few characters: 20k, 1.5M.
pub fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1e15 => format!("{value:.0e}"),
        v if v >= 1e12 => format!("{}T", trim(value / 1e12)),
        v if v >= 1e9 => format!("{}G", trim(value / 1e9)),
        v if v >= 1e6 => format!("{}M", trim(value / 1e6)),
        v if v >= 1e4 => format!("{}k", trim(value / 1e3)),
        v if v > 0.0 && v < 1e-3 => format!("{value:.0e}"),
        _ => trim(value),
    }
}

/// One system of axes.
pub struct Panel {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
}

const WIDTH: i32 = 460;
const HEIGHT: i32 = 310;
const LEFT: i32 = 70;
const RIGHT: i32 = 16;
const TOP: i32 = 34;
const BOTTOM: i32 = 52;
const HEAD: i32 = 52;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the panels, `columns` in a row, to an SVG file.
pub fn draw(path: &Path, title: &str, note: &str, columns: usize, panels: &[Panel]) -> Result<()> {
    let rows = panels.len().div_ceil(columns) as i32;
    let width = WIDTH * columns as i32;
    let legend = legend(panels, width - 30);
    let foot = legend.last().map_or(0, |&(_, _, _, y)| y + 30);
    let height = HEAD + rows * HEIGHT + foot;
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let area = SVGBackend::new(path, (width as u32, height as u32)).into_drawing_area();
    let drawn = (|| -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        area.fill(&WHITE)?;
        text(&area, title, 17, INK, (15, 12), HPos::Left)?;
        text(&area, note, 12, GREY, (15, 36), HPos::Left)?;
        for (number, panel) in (0..).zip(panels) {
            let origin = (number % columns as i32 * WIDTH, HEAD + number / columns as i32 * HEIGHT);
            paint(&area, panel, origin)?;
        }
        for (name, look, x, y) in &legend {
            let y = HEAD + rows * HEIGHT + y + 8;
            swatch(&area, *look, (15 + x, y), (45 + x, y))?;
            text(&area, name, 12, INK, (52 + x, y - 7), HPos::Left)?;
        }
        area.present()
    })();
    drawn.map_err(|e| anyhow!("drawing {}: {e}", path.display()))?;
    say(format_args!("drawn {}", path.display()))?;
    Ok(())
}

/// Entries of the legend with their places, row by row.
fn legend(panels: &[Panel], width: i32) -> Vec<(String, Look, i32, i32)> {
    let mut entries: Vec<(String, Look, i32, i32)> = Vec::new();
    let (mut x, mut y) = (0, 0);
    for series in panels.iter().flat_map(|panel| &panel.series) {
        if series.points.is_empty() || entries.iter().any(|(name, ..)| *name == series.name) {
            continue;
        }
        let size = 62 + series.name.chars().count() as i32 * 7;
        if x > 0 && x + size > width {
            (x, y) = (0, y + 20);
        }
        entries.push((series.name.clone(), series.look, x, y));
        x += size;
    }
    entries
}

fn text(
    area: &Area<'_>,
    words: &str,
    size: i32,
    colour: RGBColor,
    at: (i32, i32),
    anchor: HPos,
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    // plotters divides by 1.24 on the way to SVG.
    let font = ("sans-serif", f64::from(size) * 1.24).into_font();
    let style = TextStyle { font, color: colour.to_backend_color(), pos: Pos::new(anchor, VPos::Top) };
    area.draw(&Text::new(words.to_owned(), at, style))
}

fn paint(
    area: &Area<'_>,
    panel: &Panel,
    (left, top): (i32, i32),
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let x_range = panel.x.extent(points().map(|p| p.0));
    let bands = || panel.series.iter().flat_map(|series| &series.band);
    let y_range = panel
        .y
        .extent(points().map(|p| p.1).chain(bands().flat_map(|b| [b.1, b.2]).filter(|v| v.is_finite())));
    let (x0, x1) = (left + LEFT, left + WIDTH - RIGHT);
    let (y0, y1) = (top + HEIGHT - BOTTOM, top + TOP);
    let scale = |axis: &Axis, (low, high): (f64, f64), value: f64, from: i32, to: i32| {
        let share =
            if axis.log { (value / low).ln() / (high / low).ln() } else { (value - low) / (high - low) };
        from + (share * f64::from(to - from)).round() as i32
    };
    let at_x = |value: f64| scale(&panel.x, x_range, value, x0, x1);
    let at_y = |value: f64| scale(&panel.y, y_range, value, y0, y1);
    text(area, &panel.title, 14, INK, (x0, top + 8), HPos::Left)?;
    for tick in panel.x.ticks(x_range) {
        let x = at_x(tick);
        area.draw(&PathElement::new(vec![(x, y0), (x, y1)], GRID))?;
        text(area, &panel.x.tick_label(tick), 11, INK, (x, y0 + 5), HPos::Center)?;
    }
    for tick in panel.y.ticks(y_range) {
        let y = at_y(tick);
        area.draw(&PathElement::new(vec![(x0, y), (x1, y)], GRID))?;
        text(area, &panel.y.tick_label(tick), 11, INK, (x0 - 6, y - 6), HPos::Right)?;
    }
    area.draw(&PathElement::new(vec![(x0, y1), (x0, y0), (x1, y0)], INK))?;
    text(area, panel.x.label, 12, INK, ((x0 + x1) / 2, y0 + 24), HPos::Center)?;
    let font = ("sans-serif", 12.0 * 1.24).into_font().transform(FontTransform::Rotate270);
    let style = TextStyle { font, color: INK.to_backend_color(), pos: Pos::new(HPos::Center, VPos::Top) };
    area.draw(&Text::new(panel.y.label.to_owned(), (left + 8, (y0 + y1) / 2), style))?;
    let inside = |&(x, y): &(f64, f64)| {
        let within = |v: f64, (low, high): (f64, f64)| v >= low * 0.9999 && v <= high * 1.0001;
        x.is_finite() && y.is_finite() && within(x, x_range) && within(y, y_range)
    };
    for series in &panel.series {
        let colour = colour_of(series.look);
        if series.band.len() > 1 {
            let band: Vec<_> =
                series.band.iter().filter(|b| inside(&(b.0, b.1)) && inside(&(b.0, b.2))).collect();
            let there = band.iter().map(|b| (at_x(b.0), at_y(b.1)));
            let back = band.iter().rev().map(|b| (at_x(b.0), at_y(b.2)));
            area.draw(&Polygon::new(there.chain(back).collect::<Vec<_>>(), colour.mix(0.18)))?;
        }
        let places: Vec<(i32, i32)> =
            series.points.iter().filter(|p| inside(p)).map(|p| (at_x(p.0), at_y(p.1))).collect();
        stroke(area, series.look, &places)?;
    }
    Ok(())
}

fn colour_of(look: Look) -> RGBColor {
    match look {
        Look::Line { colour, .. } | Look::Marked { colour, .. } | Look::Hollow { colour } => {
            COLOURS[colour % COLOURS.len()]
        }
        Look::Published => BLACK,
        Look::Reference => GREY,
    }
}

fn swatch(
    area: &Area<'_>,
    look: Look,
    from: (i32, i32),
    to: (i32, i32),
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    match look {
        Look::Published | Look::Hollow { .. } => mark(area, look, ((from.0 + to.0) / 2, from.1)),
        Look::Marked { .. } => {
            stroke(area, look, &[from, to])?;
            Ok(())
        }
        _ => stroke(area, look, &[from, to]),
    }
}

fn stroke(
    area: &Area<'_>,
    look: Look,
    places: &[(i32, i32)],
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let colour = colour_of(look);
    let dashed = match look {
        Look::Line { dashed, .. } | Look::Marked { dashed, .. } => dashed,
        Look::Reference => true,
        Look::Published | Look::Hollow { .. } => {
            return places.iter().try_for_each(|&place| mark(area, look, place));
        }
    };
    let style = colour.stroke_width(2);
    if !dashed {
        area.draw(&PathElement::new(places.to_vec(), style))?;
    } else {
        for dash in dashes(places) {
            area.draw(&PathElement::new(dash, style))?;
        }
    }
    if let Look::Marked { .. } = look {
        places.iter().try_for_each(|&place| mark(area, look, place))?;
    }
    Ok(())
}

/// Cuts a line into dashes of six units with gaps of four.
fn dashes(places: &[(i32, i32)]) -> Vec<Vec<(i32, i32)>> {
    let (mut all, mut dash, mut way) = (Vec::new(), Vec::new(), 0.0f64);
    for pair in places.windows(2) {
        let (dx, dy) = (f64::from(pair[1].0 - pair[0].0), f64::from(pair[1].1 - pair[0].1));
        let length = dx.hypot(dy);
        let steps = length.ceil().max(1.0) as i32;
        for step in 0..steps {
            let share = f64::from(step) / f64::from(steps);
            let place = (
                (f64::from(pair[0].0) + dx * share).round() as i32,
                (f64::from(pair[0].1) + dy * share).round() as i32,
            );
            if (way + length * share) % 10.0 < 6.0 {
                dash.push(place);
            } else if dash.len() > 1 {
                all.push(std::mem::take(&mut dash));
            } else {
                dash.clear();
            }
        }
        way += length;
    }
    if dash.len() > 1 {
        all.push(dash);
    }
    all
}

fn mark(area: &Area<'_>, look: Look, (x, y): (i32, i32)) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let style = match look {
        Look::Hollow { .. } => colour_of(look).stroke_width(2),
        _ => colour_of(look).filled(),
    };
    match look {
        // Hollow ones are closed paths: the other shapes are always filled.
        Look::Hollow { colour } => {
            let corners: &[(i32, i32)] = match colour % 4 {
                0 => &[(-2, -6), (2, -6), (6, -2), (6, 2), (2, 6), (-2, 6), (-6, 2), (-6, -2)],
                1 => &[(-5, -5), (5, -5), (5, 5), (-5, 5)],
                2 => &[(-6, 5), (0, -6), (6, 5)],
                _ => &[(0, -7), (7, 0), (0, 7), (-7, 0)],
            };
            let around = corners.iter().chain(&corners[..2]).map(|(dx, dy)| (x + dx, y + dy));
            area.draw(&PathElement::new(around.collect::<Vec<_>>(), style))
        }
        Look::Marked { colour, .. } => match colour % 4 {
            0 => area.draw(&Circle::new((x, y), 4, style)),
            1 => area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], style)),
            2 => area.draw(&TriangleMarker::new((x, y), 6, style)),
            _ => area.draw(&Polygon::new(vec![(x, y - 5), (x + 5, y), (x, y + 5), (x - 5, y)], style)),
        },
        _ => {
            let stroke = colour_of(look).stroke_width(2);
            area.draw(&PathElement::new(vec![(x - 5, y - 5), (x + 5, y + 5)], stroke))?;
            area.draw(&PathElement::new(vec![(x - 5, y + 5), (x + 5, y - 5)], stroke))
        }
    }
}
