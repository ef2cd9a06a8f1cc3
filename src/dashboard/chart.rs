//! Charts as SVG. Only presentation attributes, because the pages' content security policy forbids styles. Each chart has a one-sentence
//! description and a table.

use std::fmt::Write as _;

use askama::Template;

use super::markdown::escaped;
use super::words::percent;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 220.0;
/// Margins for the axis labels.
const LEFT: f64 = 64.0;
const BELOW: f64 = 34.0;
const ABOVE: f64 = 26.0;
const MAX_BAR_WIDTH: f64 = 64.0;

#[derive(Debug, Clone, Template)]
#[template(path = "chart.html")]
pub(super) struct Chart {
    title: String,
    summary: String,
    svg: String,
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) value: f64,
    pub(super) shown: String,
    /// CSS class: `bar` or `rating-…`.
    pub(super) class: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChartLine {
    pub(super) name: String,
    /// Index into the labels, and value.
    pub(super) points: Vec<(usize, f64)>,
}

/// Renders a bar chart; `words` are the axis titles.
pub(super) fn bars(
    title: &str,
    summary: String,
    (label, value): (&'static str, &'static str),
    bars: &[Bar],
    words: impl Fn(f64) -> String,
) -> Chart {
    let top = top_of(bars);
    let mut svg = frame(top, &words);
    let step = (WIDTH - LEFT) / count(bars.len().max(1));
    let width = (step * 0.76).min(MAX_BAR_WIDTH);
    for (at, bar) in (0_u32..).zip(bars) {
        let height = (HEIGHT - BELOW - ABOVE) * bar.value / top;
        let x = LEFT + step * f64::from(at);
        let _ = write!(
            svg,
            r#"<rect class="bar {}" x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" rx="2"/>"#,
            bar.class,
            x + (step - width) / 2.0,
            HEIGHT - BELOW - height,
            width,
            height.max(if bar.value > 0.0 { 1.5 } else { 0.0 }),
        );
    }
    labels(&mut svg, step, bars.iter().map(|bar| bar.label.as_str()));
    Chart {
        title: title.to_owned(),
        summary,
        svg,
        heads: vec![label, value],
        rows: bars
            .iter()
            .map(|bar| vec![bar.label.clone(), bar.shown.clone()])
            .collect(),
    }
}

/// Renders lines over shared labels; the axis ranges from 0 to `top`.
pub(super) fn lines(
    title: &str,
    summary: String,
    labels_of: &[String],
    lines: &[ChartLine],
    top: f64,
    words: impl Fn(f64) -> String,
) -> Chart {
    let mut svg = frame(top, &words);
    let step = (WIDTH - LEFT) / count(labels_of.len().max(1));
    let place = |&(at, value): &(usize, f64)| {
        let x = LEFT + step * (count(at) + 0.5);
        (x, HEIGHT - BELOW - (HEIGHT - BELOW - ABOVE) * value / top)
    };
    for (nth, line) in lines.iter().enumerate() {
        let points: Vec<String> = line
            .points
            .iter()
            .map(place)
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = write!(
            svg,
            r#"<polyline class="line of-{nth}" points="{}"/>"#,
            points.join(" ")
        );
        for (x, y) in line.points.iter().map(place) {
            let _ = write!(
                svg,
                r#"<circle class="point of-{nth}" cx="{x:.1}" cy="{y:.1}" r="3"/>"#
            );
        }
    }
    if lines.len() > 1 {
        key(&mut svg, lines);
    }
    labels(&mut svg, step, labels_of.iter().map(String::as_str));
    let rows = lines.iter().flat_map(|line| {
        line.points.iter().map(|&(at, value)| {
            let label = labels_of.get(at).cloned().unwrap_or_default();
            vec![label, line.name.clone(), words(value)]
        })
    });
    Chart {
        title: title.to_owned(),
        summary,
        svg,
        heads: vec!["Period", "Of", "Value"],
        rows: rows.collect(),
    }
}

fn key(svg: &mut String, lines: &[ChartLine]) {
    let step = (WIDTH - LEFT) / count(lines.len().max(1));
    for (nth, line) in lines.iter().enumerate() {
        let x = LEFT + step * count(nth);
        let _ = write!(
            svg,
            r#"<line class="line of-{nth}" x1="{x:.1}" x2="{:.1}" y1="8" y2="8"/><text class="key" x="{:.1}" y="13">{}</text>"#,
            x + 24.0,
            x + 32.0,
            escaped(&line.name)
        );
    }
}

/// A confidence level with its promised and its observed share of right answers, both 0-1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Promise {
    pub(super) name: String,
    pub(super) promised: f64,
    pub(super) kept: f64,
    /// 95% confidence interval of the observed share.
    pub(super) interval: [f64; 2],
    pub(super) cases: usize,
}

/// Renders promised (x) against observed shares (y). A calibrated suite follows the diagonal.
pub(super) fn reliability(title: &str, summary: String, levels: &[Promise]) -> Chart {
    const SIDE: f64 = 24.0;
    let x = |share: f64| LEFT + SIDE + (WIDTH - LEFT - 2.0 * SIDE) * share.clamp(0.0, 1.0);
    let y = |share: f64| HEIGHT - BELOW - (HEIGHT - BELOW - ABOVE) * share.clamp(0.0, 1.0);
    let mut svg = frame(1.0, &percent);
    let _ = write!(
        svg,
        r#"<line stroke="currentColor" stroke-opacity="0.45" stroke-dasharray="5 4" x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}"/><text x="{:.1}" y="{:.1}">right</text><text x="{:.1}" y="{:.1}" text-anchor="middle">promised</text>"#,
        x(0.0),
        y(0.0),
        x(1.0),
        y(1.0),
        LEFT + 4.0,
        y(0.75),
        x(0.875),
        HEIGHT - BELOW + 20.0
    );
    for level in levels {
        let (at, [low, high]) = (x(level.promised), level.interval.map(y));
        let _ = write!(
            svg,
            r#"<line class="line" x1="{at:.1}" x2="{at:.1}" y1="{low:.1}" y2="{high:.1}"/><circle class="point" cx="{at:.1}" cy="{:.1}" r="5"/><text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
            y(level.kept),
            at - 9.0,
            // Keeps the label off the lines at the top and the bottom.
            y(level.kept) + if level.kept > 0.5 { 17.0 } else { -9.0 },
            escaped(&level.name)
        );
    }
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let _ = write!(
            svg,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            x(share),
            HEIGHT - BELOW + 20.0,
            percent(share)
        );
    }
    let row = |level: &Promise| {
        let [low, high] = level.interval.map(percent);
        vec![
            level.name.clone(),
            percent(level.promised),
            percent(level.kept),
            format!("{low} to {high}"),
            level.cases.to_string(),
        ]
    };
    Chart {
        title: title.to_owned(),
        summary,
        svg,
        heads: vec!["Confidence", "Promises", "Right", "95% interval", "Cases"],
        rows: levels.iter().map(row).collect(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of points are small")]
fn count(n: usize) -> f64 {
    n as f64
}

fn frame(top: f64, words: &impl Fn(f64) -> String) -> String {
    let mut svg = String::new();
    for part in [0.0, 0.5, 1.0] {
        let y = HEIGHT - BELOW - (HEIGHT - BELOW - ABOVE) * part;
        let _ = write!(
            svg,
            r#"<line class="axis" x1="{LEFT}" x2="{WIDTH}" y1="{y:.1}" y2="{y:.1}"/><text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
            LEFT - 6.0,
            y + 4.0,
            escaped(&words(top * part))
        );
    }
    svg
}

/// Renders the labels of the x axis, thinned out so that they don't overlap.
fn labels<'a>(svg: &mut String, step: f64, labels: impl ExactSizeIterator<Item = &'a str>) {
    let every = labels.len().div_ceil(10).max(1);
    for (at, label) in labels.enumerate() {
        if at % every == 0 {
            // Narrow screens hide every second label.
            let class = if (at / every).is_multiple_of(2) {
                ""
            } else {
                "more"
            };
            let x = LEFT + step * (count(at) + 0.5);
            let y = HEIGHT - BELOW + 20.0;
            let _ = write!(
                svg,
                r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="middle">{}</text>"#,
                escaped(label)
            );
        }
    }
}

/// Maximum of the bars' axis. For counts, half of it is an integer too.
fn top_of(bars: &[Bar]) -> f64 {
    let top = nice(bars.iter().map(|bar| bar.value).fold(0.0, f64::max));
    let are_counts = bars.iter().all(|bar| bar.value.fract() == 0.0);
    if are_counts && top % 2.0 == 1.0 {
        top + 1.0
    } else {
        top
    }
}

fn nice(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let size = 10_f64.powf(value.log10().floor());
    let step = [1.0, 2.0, 4.0, 5.0, 10.0];
    let fits = step.iter().find(|step| **step * size >= value);
    fits.copied().unwrap_or(10.0) * size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_maximum_is_a_round_number() {
        for (value, top) in [
            (0.0, 1.0),
            (7.0, 10.0),
            (11.0, 20.0),
            (100.0, 100.0),
            (0.03, 0.04),
        ] {
            assert!(
                (nice(value) - top).abs() < 1e-9,
                "{value} gives {}",
                nice(value)
            );
        }
    }

    #[test]
    fn count_axis_has_integer_ticks() {
        let top = |values: &[f64]| {
            let bar = |value: &f64| Bar {
                label: String::new(),
                value: *value,
                shown: String::new(),
                class: String::new(),
            };
            top_of(&values.iter().map(bar).collect::<Vec<_>>())
        };
        for (most, end) in [(0.0, 2.0), (1.0, 2.0), (5.0, 6.0), (4.0, 4.0), (50.0, 50.0)] {
            assert_eq!(top(&[0.0, most]), end, "{most}");
        }
        // Costs may have a fractional middle.
        assert_eq!(top(&[0.5, 5.0]), 5.0);
    }

    #[test]
    fn chart_has_title_description_table_and_no_style() {
        let bar = |label: &str, value| Bar {
            label: label.to_owned(),
            value,
            shown: format!("{value:.0} of them"),
            class: "bar".to_owned(),
        };
        let chart = bars(
            "Totals <b>",
            "Half are good.".to_owned(),
            ("Total", "Sessions"),
            &[bar("0-9", 0.0), bar("<script>", 12.0)],
            |n| format!("{n:.0}"),
        );
        let page = chart.render().unwrap();
        for part in [
            "role=\"img\"",
            "Half are good.",
            "Show as table",
            "<td>12 of them</td>",
            "scope=\"col\"",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("style=") && !page.contains("<script>") && !page.contains("<b>"));
    }

    #[test]
    fn multiple_lines_have_a_legend() {
        let line = |name: &str| ChartLine {
            name: name.to_owned(),
            points: vec![(0, 50.0)],
        };
        let labels = ["Mon".to_owned()];
        let drawn = |of: &[ChartLine]| {
            let summary = "It stayed.".to_owned();
            lines("Trend", summary, &labels, of, 100.0, |n| format!("{n:.0}")).svg
        };
        let two = drawn(&[line("a<b"), line("c")]);
        assert!(
            two.contains(">a&lt;b</text>") && two.contains(">c</text>"),
            "{two}"
        );
        assert!(!drawn(&[line("alone")]).contains("alone"));
    }

    #[test]
    fn overlapping_labels_are_omitted() {
        let drawn = |n: usize| {
            let mut svg = String::new();
            let days: Vec<String> = (0..n).map(|day| format!("day {day}")).collect();
            labels(&mut svg, 10.0, days.iter().map(String::as_str));
            (svg.matches("<text").count(), svg.matches("more").count())
        };
        for (given, shown) in [(1, (1, 0)), (10, (10, 5)), (13, (7, 3)), (90, (10, 5))] {
            assert_eq!(drawn(given), shown, "{given}");
        }
    }

    #[test]
    fn calibrated_level_is_on_the_diagonal() {
        let level = |promised, kept| Promise {
            name: "<high>".to_owned(),
            promised,
            kept,
            interval: [kept - 0.1, 1.2],
            cases: 20,
        };
        let chart = reliability("Promises", "Kept.".to_owned(), &[level(0.5, 0.5)]);
        // The diagonal runs from 88,186 to 616,26. Intervals are clipped to the frame.
        assert!(
            chart.svg.contains(r#"cx="352.0" cy="106.0""#),
            "{}",
            chart.svg
        );
        assert!(
            chart.svg.contains(r#"y1="122.0" y2="26.0""#),
            "{}",
            chart.svg
        );
        assert!(chart.svg.contains("&lt;high&gt;"), "{}", chart.svg);
        assert_eq!(chart.rows[0][1..3], ["50%", "50%"]);
        let page = chart.render().unwrap();
        assert!(
            page.contains("role=\"img\"") && !page.contains("style="),
            "{page}"
        );
    }

    #[test]
    fn points_align_with_their_labels() {
        let line = ChartLine {
            name: "a".to_owned(),
            points: vec![(0, 0.0), (1, 100.0)],
        };
        let labels = ["Mon".to_owned(), "Tue".to_owned()];
        let chart = lines(
            "Trend",
            "It rose.".to_owned(),
            &labels,
            &[line],
            100.0,
            |n| format!("{n:.0}"),
        );
        assert!(
            chart.svg.contains(r#"points="208.0,186.0 496.0,26.0""#),
            "{}",
            chart.svg
        );
        assert_eq!(chart.rows[1], ["Tue", "a", "100"]);
    }
}
