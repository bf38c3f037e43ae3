//! Charts of a report's page, drawn with the crate plotters. Each function gives an SVG element to put into the page.
//!
//! Everything is drawn [`FINE`] times as large as shown, because plotters knows whole units only. The page's style
//! sheet finds a colour by its value, and exchanges it in dark mode. People who are colour-blind can distinguish the
//! blue, orange and grey (Okabe & Ito 2008), and words say all that colours say. Fonts are those of the page.

use minijinja::Value;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::figures::{count, percent, round_percent, short_count};
use super::messages::PERCENT;
use super::model::{Histogram, Recall, SCurve};
use crate::display::counted;
use crate::{Error, Result};

/// Units per shown pixel.
const FINE: i32 = 4;

const INK: RGBColor = RGBColor(0x1f, 0x29, 0x33);
const SOFT: RGBColor = RGBColor(0x5b, 0x66, 0x73);
const GRID: RGBColor = RGBColor(0xd5, 0xda, 0xe1);
const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
const ORANGE: RGBColor = RGBColor(0xd5, 0x5e, 0x00);

/// The colour of near-duplicates in a [`split`] bar, or of the pairs of the first method alone.
pub(super) const FIRST: RGBColor = BLUE;
/// The colour of exact duplicates in a [`split`] bar, or of the pairs of the second method alone.
pub(super) const SECOND: RGBColor = ORANGE;
/// The colour of kept documents in a [`split`] bar, or of the pairs of both methods.
pub(super) const REST: RGBColor = RGBColor(0x9a, 0xa5, 0xb1);

/// Most bars of a histogram; more scores are joined to ranges.
const BARS: usize = 16;
/// The ratio of the greatest to the smallest number from which on a scale is logarithmic.
const LOG_FROM: u64 = 30;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = std::result::Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// One bar of a [`bars`] chart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bar {
    /// The label, on its left.
    pub label: String,
    /// The number that its length shows.
    pub number: u64,
}

/// An SVG element of `width` times `height` shown pixels that `paint` draws, with `description` for screen readers.
fn draw(
    width: i32,
    height: i32,
    class: &str,
    description: &str,
    paint: impl FnOnce(&Area<'_>) -> Drawn,
) -> Result<Value> {
    let mut svg = String::new();
    let (w, h) = (width * FINE, height * FINE);
    {
        let area = SVGBackend::with_string(&mut svg, (w as u32, h as u32)).into_drawing_area();
        paint(&area).and_then(|()| area.present()).map_err(|e| Error::Render(e.to_string()))?;
    }
    let body = svg.split_once('>').map_or("", |(_, body)| body);
    let description = escape(description);
    // Attributes in quotes, so that the element is as good XML as it is HTML.
    Ok(Value::from_safe_string(format!(
        "<svg class=\"{class}\" role=\"img\" aria-label=\"{description}\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {w} {h}\" preserveAspectRatio=\"{}\" xmlns=\"http://www.w3.org/2000/svg\">{body}",
        if class == "split" { "none" } else { "xMinYMid meet" },
    )))
}

fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace(char::is_control, " ")
}

fn font(size: i32, colour: RGBColor, h: HPos) -> TextStyle<'static> {
    // plotters divides by 1.24 on the way to SVG.
    let size = f64::from(size * FINE) * 1.24;
    let font = ("sans-serif", size).into_font();
    TextStyle { font, color: colour.to_backend_color(), pos: Pos::new(h, VPos::Center) }
}

/// A point given in shown pixels.
fn at(x: f64, y: f64) -> (i32, i32) {
    ((x * f64::from(FINE)).round() as i32, (y * f64::from(FINE)).round() as i32)
}

fn write(area: &Area<'_>, text: &str, style: &TextStyle<'_>, place: (i32, i32)) -> Drawn {
    // XML knows no control characters.
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    area.draw(&Text::new(text, place, style.clone()))
}

/// Draws a line of so many shown pixels.
fn line(area: &Area<'_>, from: (i32, i32), to: (i32, i32), colour: RGBColor, pixels: i32) -> Drawn {
    area.draw(&PathElement::new([from, to], colour.stroke_width((pixels * FINE) as u32)))
}

/// The smallest number above 0 and the greatest, both at least 1.
fn range(bars: &[Bar]) -> (u64, u64) {
    let numbers = bars.iter().map(|bar| bar.number).filter(|&n| n > 0);
    (numbers.clone().min().unwrap_or(1), numbers.max().unwrap_or(1))
}

/// A chart of horizontal bars, each with its number and its share of all. The texts are those of the chart's title, of
/// the labels, and of the numbers' unit.
pub(super) fn bars(title: &str, label_axis: &str, number_axis: &str, bars: &[Bar]) -> Result<Value> {
    scaled_bars([title, label_axis, number_axis], bars, range(bars), None)
}

/// Draws [`bars()`]; the scale is logarithmic if the numbers span decades.
///
/// `range` is the smallest number above 0 and the greatest that the scale must hold, so that charts can share it. A
/// line marks the `threshold`, above the bar with this place in `bars`.
fn scaled_bars(
    [title, label_axis, number_axis]: [&str; 3],
    bars: &[Bar],
    range: (u64, u64),
    threshold: Option<usize>,
) -> Result<Value> {
    const WIDTH: i32 = 440;
    const ROW: f64 = 21.0;
    const TOP: f64 = 26.0;
    const FOOT: f64 = 40.0;
    let total: u64 = bars.iter().fold(0, |sum, bar| sum.saturating_add(bar.number));
    let (least, most) = range;
    let logarithmic = most / least >= LOG_FROM;
    let share = |number: u64| percent(if total == 0 { 0.0 } else { number as f64 / total as f64 });

    let widest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(1).max(2) as f64;
    let left = (widest(&mut bars.iter().map(|b| b.label.chars().count())) * 7.6 + 12.0).min(120.0);
    let share_width = widest(&mut bars.iter().map(|b| share(b.number).chars().count())) * 6.6 + 14.0;
    let number_width = widest(&mut bars.iter().map(|b| count(b.number).chars().count())) * 7.0 + 10.0;
    let right = f64::from(WIDTH) - share_width - number_width;
    let bottom = TOP + ROW * bars.len().max(1) as f64;

    // A logarithmic scale begins at half a power of ten, so that the shortest bar is still to be seen.
    let start = if logarithmic { 10f64.powi(least.ilog10() as i32) / 2.0 } else { 0.0 };
    let position = |n: f64| match logarithmic {
        true => (n / start).log10().max(0.0) / (most as f64 / start).log10(),
        false => n / most as f64,
    };
    let x = |n: f64| left + (right - left) * position(n);
    let ticks =
        if logarithmic { decades(least, most, ((right - left) / 40.0) as u32) } else { round_steps(most) };

    let listed: Vec<String> = bars.iter().map(|b| format!("{}: {}", b.label, count(b.number))).collect();
    let marked = match threshold.map(|place| bars.get(place)) {
        Some(Some(_)) if threshold == Some(0) => " The threshold is below all.".to_owned(),
        Some(Some(bar)) => format!(" The threshold is at the beginning of {}.", bar.label),
        Some(None) => " The threshold is above all.".to_owned(),
        None => String::new(),
    };
    let description = format!("{title}; {number_axis} by {label_axis}. {}.{marked}", listed.join(", "));
    draw(WIDTH, (bottom + FOOT) as i32, "chart", &description, |area| {
        let head = |h| font(11, SOFT, h);
        write(area, label_axis, &head(HPos::Left), at(0.0, 10.0))?;
        write(area, "number", &head(HPos::Right), at(right + number_width, 10.0))?;
        write(area, "portion", &head(HPos::Right), at(f64::from(WIDTH), 10.0))?;
        for &tick in &ticks {
            let x = x(tick as f64);
            line(area, at(x, TOP - 2.0), at(x, bottom + 4.0), GRID, 1)?;
            let label = font(10, SOFT, HPos::Center);
            write(area, &short_count(tick), &label, at(x, bottom + 12.0))?;
        }
        for (bar, y) in bars.iter().zip((0..).map(|row| TOP + ROW * (f64::from(row) + 0.5))) {
            write(area, &bar.label, &font(12, INK, HPos::Right), at(left - 8.0, y))?;
            if bar.number > 0 {
                let end = x(bar.number as f64).max(left + 1.5);
                area.draw(&Rectangle::new([at(left, y - 7.0), at(end, y + 7.0)], BLUE.filled()))?;
            }
            let figure = |colour| font(12, colour, HPos::Right);
            write(area, &count(bar.number), &figure(INK), at(right + number_width, y))?;
            write(area, &share(bar.number), &figure(SOFT), at(f64::from(WIDTH), y))?;
        }
        line(area, at(left, TOP - 2.0), at(left, bottom), SOFT, 1)?;
        if let Some(place) = threshold {
            let y = TOP + ROW * place as f64;
            line(area, at(0.0, y), at(f64::from(WIDTH), y), ORANGE, 2)?;
        }
        let scale = match logarithmic {
            true if start < 1.0 => format!("{number_axis}, logarithmic scale"),
            true => format!("{number_axis}, logarithmic scale from {}", short_count(start as u64)),
            false => number_axis.to_string(),
        };
        write(area, &scale, &font(11, SOFT, HPos::Left), at(left, bottom + 30.0))
    })
}

/// Powers of ten from just below `least` up to `most`, in at most `gaps` steps.
fn decades(least: u64, most: u64, gaps: u32) -> Vec<u64> {
    let (first, last) = (least.ilog10(), most.ilog10());
    let step = (last - first).div_ceil(gaps.max(1)).max(1);
    (first..=last).step_by(step as usize).map(|power| 10u64.pow(power)).collect()
}

/// Round numbers from 0 up to `most`, few enough to be labelled.
fn round_steps(most: u64) -> Vec<u64> {
    let power = 10u64.pow(most.ilog10());
    // Near the end of 64 bits, 5 × the power of ten may be too large; it is then no step either.
    let steps = [power / 10, power / 5, power / 2, power, power.saturating_mul(2), power.saturating_mul(5)];
    let step = steps.into_iter().find(|&step| step > 0 && most / step <= 4).unwrap_or(power);
    (0..=most / step).map(|i| i * step).collect()
}

/// A chart for each histogram, all on one scale. `threshold` is the least similarity of near-duplicates, which is
/// marked if scores are similarities.
pub(super) fn histograms(histograms: &[&Histogram], threshold: Option<f64>) -> Result<Vec<Value>> {
    let lists: Vec<(Vec<Bar>, Option<usize>)> =
        histograms.iter().map(|histogram| score_bars(histogram, threshold)).collect();
    let all = range(&lists.iter().flat_map(|(bars, _)| bars.clone()).collect::<Vec<_>>());
    histograms
        .iter()
        .zip(&lists)
        .map(|(h, (bars, mark))| {
            scaled_bars([&h.title, &format!("score ({})", h.unit), "pairs"], bars, all, *mark)
        })
        .collect()
}

/// A bar for each score, or for each range of scores if there are many; of a similarity for each five percent, cut at
/// the threshold. Also gives the place of the first bar from the threshold on.
fn score_bars(histogram: &Histogram, threshold: Option<f64>) -> (Vec<Bar>, Option<usize>) {
    let rows = &histogram.rows;
    if histogram.unit == PERCENT
        && let (Some(first), Some(last)) = (rows.first(), rows.last())
    {
        // A product such as that of 0.07 may be a little above the whole number.
        let threshold = threshold.map(|share| (100.0 * share - 1e-9).ceil() as u32);
        let fives = first.score - first.score % 5..=last.score;
        let mut starts: Vec<u32> = fives.step_by(5).collect();
        starts.extend(threshold.filter(|score| (starts[0]..=last.score).contains(score)));
        starts.sort_unstable();
        starts.dedup();
        let bar = |(at, &start): (usize, &u32)| {
            // 100 percent is by itself.
            let end = starts.get(at + 1).map_or(start - start % 5 + 4, |next| next - 1).min(100);
            let label = if start == end { start.to_string() } else { format!("{start}–{end}") };
            let number = rows.iter().filter(|row| (start..=end).contains(&row.score)).map(|row| row.number);
            Bar { label, number: number.fold(0, u64::saturating_add) }
        };
        let mark = threshold.map(|score| starts.partition_point(|&start| start < score));
        return (starts.iter().enumerate().map(bar).collect(), mark);
    }
    let per_bar = rows.len().div_ceil(BARS).max(1);
    let bars = rows
        .chunks(per_bar)
        .map(|rows| {
            let (first, last) = (rows[0].score, rows[rows.len() - 1].score);
            let label = if first == last { first.to_string() } else { format!("{first}–{last}") };
            Bar { label, number: rows.iter().fold(0, |sum, row| sum.saturating_add(row.number)) }
        })
        .collect();
    (bars, None)
}

/// One bar that is cut into parts, each with its colour and number. `description` is for screen readers.
pub(super) fn split(description: &str, parts: &[(RGBColor, u64)]) -> Result<Value> {
    const WIDTH: i32 = 1_000;
    const GAP: f64 = 1.5;
    let total: f64 = parts.iter().map(|&(_, n)| n as f64).sum();
    draw(WIDTH, 22, "split", description, |area| {
        let mut from = 0.0;
        for &(colour, number) in parts.iter().filter(|&&(_, n)| n > 0) {
            let to = from + f64::from(WIDTH) * number as f64 / total;
            // The smallest part is still to be seen.
            let (left, right) = (from.min(f64::from(WIDTH) - 2.0), (to - GAP).max(from + 1.5));
            area.draw(&Rectangle::new([at(left, 0.0), at(right, 22.0)], colour.filled()))?;
            from = to;
        }
        Ok(())
    })
}

/// A chart of the probability that a pair is compared, by its Jaccard similarity, with the threshold marked.
pub(super) fn s_curve(curve: &SCurve) -> Result<Value> {
    const SIZE: (i32, i32) = (480, 306);
    let description = format!(
        "Probability that a pair is compared, by its Jaccard similarity, with {} of {}: {} at {}.",
        counted(u64::from(curve.bands), "band", "bands"),
        counted(u64::from(curve.rows), "row", "rows"),
        percent(curve.probability_at_threshold),
        curve.threshold
    );
    let (left, right, top, bottom) = (46.0, 416.0, 26.0, 256.0);
    let place = |(s, p): (f64, f64)| {
        at(left + (right - left) * s.clamp(0.0, 1.0), bottom - (bottom - top) * p.clamp(0.0, 1.0))
    };
    draw(SIZE.0, SIZE.1, "chart", &description, |area| {
        let small = |h| font(11, SOFT, h);
        for fifth in 0..=5 {
            let v = f64::from(fifth) / 5.0;
            line(area, place((0.0, v)), place((1.0, v)), GRID, 1)?;
            line(area, place((v, 0.0)), place((v, 1.0)), GRID, 1)?;
            let (x, y) = place((0.0, v));
            write(area, &format!("{:.0} %", v * 100.0), &small(HPos::Right), (x - 6 * FINE, y))?;
            let (x, y) = place((v, 0.0));
            write(area, &format!("{v:.1}"), &small(HPos::Center), (x, y + 12 * FINE))?;
        }
        let threshold = curve.threshold;
        line(area, place((threshold, 0.0)), place((threshold, 1.0)), ORANGE, 2)?;
        let points: Vec<_> = curve.points.iter().map(|&point| place(point)).collect();
        area.draw(&PathElement::new(points, BLUE.stroke_width(3 * FINE as u32)))?;
        let (x, y) = place((threshold, curve.probability_at_threshold));
        area.draw(&Circle::new((x, y), 5 * FINE, ORANGE.filled()))?;
        // Below and to the right of the point there is never any curve.
        let note = |text: &str, dy: i32| {
            let style = font(12, INK, HPos::Left);
            write(area, text, &style, (x + 9 * FINE, (y + dy).min(at(0.0, bottom - 8.0).1)))
        };
        note(&percent(curve.probability_at_threshold), 14 * FINE)?;
        note(&format!("at {threshold}"), 30 * FINE)?;
        let middle = (left + right) / 2.0;
        write(area, "Jaccard similarity of the pair", &small(HPos::Center), at(middle, bottom + 36.0))?;
        write(area, "probability that a pair is compared", &small(HPos::Left), at(0.0, 8.0))
    })
}

/// A chart of the recall that was reached, with its interval, beside the recall that was wanted.
pub(super) fn recall(recall: &Recall) -> Result<Value> {
    const SIZE: (i32, i32) = (460, 104);
    let [share, low, high] = [recall.reached, recall.low, recall.high].map(percent);
    let measured = format!("{share} ({low} to {high})");
    let description = format!("Recall {measured}; wanted {}.", round_percent(recall.wanted));
    let lowest = [recall.low, recall.reached, recall.wanted].into_iter().fold(1.0, f64::min);
    // From the next round share below to 1.
    let steps = [0.95, 0.9, 0.8, 0.5, 0.0];
    let start = steps.into_iter().find(|&s| s <= lowest - 0.004).unwrap_or(0.0);
    let (left, right, y) = (18.0, 440.0, 52.0);
    let x = |share: f64| left + (right - left) * ((share - start) / (1.0 - start)).clamp(0.0, 1.0);
    // Words near an end of the axis grow towards its middle.
    let side = |x: f64| match x {
        x if x < left + 90.0 => HPos::Left,
        x if x > right - 90.0 => HPos::Right,
        _ => HPos::Center,
    };
    draw(SIZE.0, SIZE.1, "chart", &description, |area| {
        line(area, at(left, y), at(right, y), GRID, 2)?;
        for fifth in 0..=5 {
            let share = start + (1.0 - start) * f64::from(fifth) / 5.0;
            let x = x(share);
            line(area, at(x, y - 5.0), at(x, y + 5.0), GRID, 1)?;
            let decimals = usize::from((1.0 - start) < 0.1);
            let label = format!("{:.decimals$} %", share * 100.0);
            write(area, &label, &font(10, SOFT, HPos::Center), at(x, y + 16.0))?;
        }
        let (low, high, reached, wanted) =
            (x(recall.low), x(recall.high), x(recall.reached), x(recall.wanted));
        let interval = [at(low, y - 4.0), at(high.max(low + 1.0), y + 4.0)];
        area.draw(&Rectangle::new(interval, BLUE.mix(0.35).filled()))?;
        line(area, at(wanted, y - 16.0), at(wanted, y + 8.0), ORANGE, 2)?;
        area.draw(&Circle::new(at(reached, y), 6 * FINE, BLUE.filled()))?;
        let note = |colour, x| font(12, colour, side(x));
        let words = format!("wanted {}", round_percent(recall.wanted));
        write(area, &words, &note(SOFT, wanted), at(wanted, y - 26.0))?;
        write(area, &format!("reached {measured}"), &note(INK, reached), at(reached, y + 38.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quick_xml::{Reader, events::Event};

    /// The text of a chart; panics unless it is well-formed XML.
    fn text_of(svg: &Value) -> String {
        let svg = svg.to_string();
        let mut reader = Reader::from_str(&svg);
        let (mut text, mut depth) = (String::new(), 0);
        loop {
            match reader.read_event().expect("well-formed XML") {
                Event::Start(tag) => {
                    assert!(tag.attributes().all(|a| a.is_ok()));
                    depth += 1;
                }
                Event::Empty(tag) => assert!(tag.attributes().all(|a| a.is_ok())),
                Event::End(_) => depth -= 1,
                Event::Text(t) => text.push_str(&t.xml10_content()),
                Event::GeneralRef(name) if name.xml10_content() == "gt" => text.push('>'),
                Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!(depth, 0, "every element is closed");
        text
    }

    fn bar(label: &str, number: u64) -> Bar {
        Bar { label: label.to_string(), number }
    }

    #[test]
    fn bars_show_numbers_and_portions() {
        let svg = bars("table 0", "score", "pairs", &[bar("63", 25), bar("64", 75)]).expect("draws");
        let text = text_of(&svg);
        assert!(text.contains("25.0 %") && text.contains("75") && !text.contains("logarithmic"), "{text}");
        let svg = bars("t", "score", "pairs", &[bar("63", 1), bar("64", 1_356_557)]).expect("draws");
        let text = text_of(&svg);
        assert!(
            text.contains("1,356,557") && text.contains("> 99.99 %") && text.contains("logarithmic"),
            "{text}"
        );
    }

    #[test]
    fn extremes_draw() {
        for numbers in [&[][..], &[0], &[1], &[0, 0], &[u64::MAX], &[u64::MAX, u64::MAX, 1], &[9, 10, 11]] {
            let list: Vec<Bar> = numbers.iter().map(|&n| bar("x", n)).collect();
            text_of(&bars("t", "l", "n", &list).expect("draws"));
            let parts: Vec<_> = numbers.iter().map(|&n| (FIRST, n)).collect();
            text_of(&split("d", &parts).expect("draws"));
        }
        for (low, high) in [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0)] {
            let r = Recall { wanted: 0.95, reached: low, low, high, ..Recall::default() };
            text_of(&recall(&r).expect("draws"));
        }
        for curve in [SCurve::default(), SCurve::new(1, 1, 0.0), SCurve::new(128, 1, 1.0)] {
            text_of(&s_curve(&curve).expect("draws"));
        }
    }

    #[test]
    fn what_is_written_is_escaped() {
        let evil = "</svg><script>alert(\"1\" & '2')</script>\u{1}";
        let svg = bars(evil, evil, evil, &[bar(evil, 3)]).expect("draws");
        text_of(&svg);
        let svg = svg.to_string();
        assert!(!svg.contains("<script") && svg.matches("</svg>").count() == 1);
        text_of(&split(evil, &[(REST, 3)]).expect("draws"));
    }

    #[test]
    fn many_scores_are_joined_and_none_is_lost() {
        let counts: Vec<(u32, u64)> = (64..=128).map(|score| (score, 10)).collect();
        let histogram = Histogram::new("band 0", "matching positions", &counts);
        let svg = histograms(&[&histogram], Some(0.8)).expect("draws").remove(0);
        let text = text_of(&svg);
        let rectangles = svg.to_string().matches("<rect").count();
        assert!(text.contains("64–68") && text.contains("50") && rectangles <= BARS, "{text}");
    }

    #[test]
    fn bars_of_similarities_are_cut_at_the_threshold_which_is_marked() {
        let counts: Vec<(u32, u64)> = (71..=100).map(|score| (score, 1)).collect();
        let histogram = Histogram::new("all pairs", PERCENT, &counts);
        let bars = |threshold| {
            let (bars, mark) = score_bars(&histogram, threshold);
            assert_eq!(bars.iter().map(|bar| bar.number).sum::<u64>(), 30);
            (bars.into_iter().map(|bar| bar.label).collect::<Vec<_>>(), mark)
        };
        let fives = ["70–74", "75–79", "80–84", "85–89", "90–94", "95–99", "100"];
        assert_eq!(bars(None), (fives.map(str::to_owned).to_vec(), None));
        assert_eq!(bars(Some(0.8)), (fives.map(str::to_owned).to_vec(), Some(2)));
        assert_eq!(bars(Some(1.0)).1, Some(6));
        assert_eq!(bars(Some(0.6)), (fives.map(str::to_owned).to_vec(), Some(0)));
        let (labels, mark) = bars(Some(0.83));
        assert_eq!((&labels[2..4], mark), (&["80–82".to_owned(), "83–84".to_owned()][..], Some(3)));
        let svg = |threshold| histograms(&[&histogram], threshold).expect("draws").remove(0).to_string();
        let orange = format!("#{:02X}{:02X}{:02X}", ORANGE.0, ORANGE.1, ORANGE.2);
        assert!(svg(Some(0.83)).contains(&orange) && svg(Some(0.83)).contains("at the beginning of 83–84"));
        assert!(!svg(None).contains(&orange));
    }

    #[test]
    fn ticks_are_few_and_within_reach() {
        let few = |ticks: &[u64], most| {
            assert!(!ticks.is_empty() && ticks.len() <= 6, "{most} {ticks:?}");
            assert!(ticks.is_sorted_by(|a, b| a < b) && ticks[ticks.len() - 1] <= most, "{most} {ticks:?}");
        };
        for most in [1, 2, 3, 9, 10, 11, 99, 12_345, 999_999, 1_000_000, u64::MAX] {
            few(&round_steps(most), most);
            few(&decades(1, most, 5), most);
            few(&decades(most, most, 0), most);
        }
        assert_eq!(decades(18_335, 6_396_799, 5), [10_000, 100_000, 1_000_000]);
        assert_eq!(round_steps(9_120), [0, 2_000, 4_000, 6_000, 8_000]);
    }
}
