//! The curves of the stages on disk, out of the rows that the example `stages` prints: what a page takes of time,
//! memory and disk, the more pages there are.

use crate::Options;
use crate::figure::{self, Axis, Look, Panel, Series};
use crate::results::{Row, read};
use anyhow::Result;

/// Draws a panel each of time, memory and disk.
pub fn draw(options: &Options) -> Result<()> {
    let path = options.results().join("stages/rows.csv");
    if !path.exists() {
        return Ok(());
    }
    let rows = read(&path)?;
    let panel = |title: &str, y: Axis, stages: &[&str], value: fn(&Row) -> f64| {
        let of_stage = |(colour, stage): (usize, &&str)| {
            // Of pages of the usual kind; for each number of them the last row, which had most memory.
            let of =
                rows.iter().filter(|row| row.text("stage") == *stage && row.number("of_one_template") == 0.0);
            let mut points: Vec<(f64, f64)> = Vec::new();
            for point in of.map(|row| (row.number("pages"), value(row))) {
                match points.last_mut() {
                    Some(last) if last.0 == point.0 => *last = point,
                    _ => points.push(point),
                }
            }
            Series::new(*stage, Look::Marked { colour, dashed: colour > 3 }, points)
        };
        let series = stages.iter().enumerate().map(of_stage).filter(|series| !series.points.is_empty());
        Panel { title: title.to_owned(), x: Axis::log("pages"), y, series: series.collect() }
    };
    let stages = ["sketch", "join", "star", "connected", "audit", "apply"];
    let panels = [
        panel("Time", Axis::linear("processor time, µs a page"), &stages, |row| {
            row.number("microseconds_a_page")
        }),
        panel("Memory", Axis::log("most memory held, MB"), &stages[..4], |row| {
            row.number("peak_bytes") / 1e6
        }),
        panel("Disk", Axis::linear("bytes a page, at most").between(0.0, 330.0), &stages[..4], |row| {
            row.number("disk_bytes_a_page")
        }),
    ];
    let note = "generated pages of about 1 kB; joins and clusters take what memory they are given; rows: results/stages/rows.csv";
    figure::draw(&options.figures().join("stages.svg"), "Stages on disk", note, 3, &panels)
}
