//! Charts as SVG: panels beside each other with the same axes, lines with points, or bars.

use std::fmt::Write;

const PANEL: (f64, f64) = (430.0, 300.0);
/// Space around a panel's area: left, top, right, bottom.
const SPACE: (f64, f64, f64, f64) = (72.0, 44.0, 24.0, 52.0);
/// Height of a line of the legend, and the length of its sample.
const LEGEND: (f64, f64) = (20.0, 24.0);
/// More than a letter of the legend is wide, at its size of letters.
const LETTER: f64 = 7.2;
/// A logarithmic scale beyond this factor has marks at powers of ten only.
const MANY: f64 = 2000.0;

/// Maps values to positions along an axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    from: f64,
    to: f64,
    is_log: bool,
}

impl Scale {
    /// Equal steps for equal differences.
    pub(super) fn linear(from: f64, to: f64) -> Self {
        Self { from, to, is_log: false }
    }

    /// Equal steps for equal factors. Both ends are above zero.
    pub(super) fn log(from: f64, to: f64) -> Self {
        Self { from, to, is_log: true }
    }

    /// A logarithmic scale over `values`, from the power of ten below them or its double or
    /// quintuple, to the one above.
    pub(super) fn log_around(values: impl Iterator<Item = f64>) -> Self {
        let (least, most) = values.filter(|v| *v > 0.0).fold((f64::INFINITY, 0.0), |(a, b), v| (v.min(a), v.max(b)));
        if most == 0.0 {
            return Self::log(1.0, 10.0);
        }
        let around = Self::log(10f64.powf(least.log10().floor()), 10f64.powf(most.log10().floor() + 1.0));
        let ticks = around.ticks();
        let from = ticks.iter().rfind(|tick| **tick <= least).copied().unwrap_or(around.from);
        let to = ticks.iter().find(|tick| **tick > most).copied().unwrap_or(around.to);
        Self::log(from, to)
    }

    /// Where `value` lies: 0 at the beginning, 1 at the end; beyond them at the nearer one.
    pub(super) fn at(&self, value: f64) -> f64 {
        let of = |v: f64| if self.is_log { v.max(f64::MIN_POSITIVE).ln() } else { v };
        ((of(value) - of(self.from)) / (of(self.to) - of(self.from))).clamp(0.0, 1.0)
    }

    /// Marks: 1, 2 and 5 times each power of ten, the powers alone where there are many; or five
    /// equal steps.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if !self.is_log {
            return (0..=5).map(|i| self.from + (self.to - self.from) * f64::from(i) / 5.0).collect();
        }
        let factors: &[f64] = if self.to / self.from > MANY { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let powers = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
        let all = powers.flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
        // The ends come from the same powers, up to rounding.
        all.filter(|tick| *tick >= self.from * 0.999 && *tick <= self.to * 1.001).collect()
    }
}

/// How a series is drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Style {
    /// Points joined by a line.
    Line,
    /// A dashed line across the panel, at its first point's height.
    Level,
    /// Bars from the bottom; a point is the left end of one.
    Bars(f64),
}

/// Points of one name.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    /// As SVG has it.
    pub(super) color: &'static str,
    pub(super) style: Style,
    pub(super) points: Vec<(f64, f64)>,
}

/// One area with axes.
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) series: Vec<Series>,
}

/// Panels with the same axes. Series of one name have one line in the legend.
pub(super) struct Chart {
    pub(super) x: (String, Scale),
    pub(super) y: (String, Scale),
    /// Values with a mark and a label on the horizontal axis.
    pub(super) x_ticks: Vec<(f64, String)>,
    pub(super) panels: Vec<Panel>,
}

impl Chart {
    /// The file.
    pub(super) fn draw(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for series in self.panels.iter().flat_map(|panel| &panel.series) {
            if !names.contains(&series.name.as_str()) {
                names.push(&series.name);
            }
        }
        let width = PANEL.0 * self.panels.len().max(1) as f64;
        let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let column = LEGEND.1 + 24.0 + LETTER * longest as f64;
        let per_line = (((width - SPACE.0) / column) as usize).clamp(1, names.len().max(1));
        let height = PANEL.1 + LEGEND.0 * names.len().div_ceil(per_line) as f64 + 10.0;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        );
        for (i, panel) in self.panels.iter().enumerate() {
            self.panel(&mut out, panel, PANEL.0 * i as f64);
        }
        for (i, name) in names.iter().enumerate() {
            let x = SPACE.0 + (i % per_line) as f64 * column;
            let y = PANEL.1 + LEGEND.0 * ((i / per_line) as f64 + 0.5);
            let first = self.panels.iter().flat_map(|panel| &panel.series).find(|series| series.name == *name);
            let (dashes, color) = first.map_or(("", ""), |series| (dashes(series.style), series.color));
            let _ = writeln!(
                out,
                "<path d=\"M{x:.1} {y:.1}h{}\" stroke=\"{color}\" stroke-width=\"3\"{dashes}/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEGEND.1,
                x + LEGEND.1 + 6.0,
                y + 4.0,
                escaped(name)
            );
        }
        out + "</svg>\n"
    }

    fn panel(&self, out: &mut String, panel: &Panel, left: f64) {
        let (x0, x1) = (left + SPACE.0, left + PANEL.0 - SPACE.2);
        let (y0, y1) = (PANEL.1 - SPACE.3, SPACE.1);
        let x = |value: f64| x0 + (x1 - x0) * self.x.1.at(value);
        let y = |value: f64| y0 + (y1 - y0) * self.y.1.at(value);
        let middle = f64::midpoint(x0, x1);
        let mut text = |x: f64, y: f64, anchor: &str, more: &str, what: &str| {
            let what = escaped(what);
            let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{more}>{what}</text>");
        };
        text(middle, y1 - 18.0, "middle", " font-weight=\"bold\"", &panel.title);
        text(middle, y0 + 40.0, "middle", "", &self.x.0);
        let (side, half) = (left + 14.0, f64::midpoint(y0, y1));
        text(side, half, "middle", &format!(" transform=\"rotate(-90 {side:.1} {half:.1})\""), &self.y.0);
        for tick in self.y.1.ticks() {
            text(x0 - 6.0, y(tick) + 4.0, "end", "", &number(tick));
        }
        for (value, label) in &self.x_ticks {
            text(x(*value), y0 + 18.0, "middle", "", label);
        }
        for tick in self.y.1.ticks() {
            let _ = writeln!(out, "<path d=\"M{x0:.1} {:.1}H{x1:.1}\" stroke=\"#ddd\"/>", y(tick));
        }
        for (value, _) in &self.x_ticks {
            let _ = writeln!(out, "<path d=\"M{:.1} {y0:.1}v5\" stroke=\"#333\"/>", x(*value));
        }
        let _ = writeln!(out, "<path d=\"M{x0:.1} {y1:.1}V{y0:.1}H{x1:.1}\" stroke=\"#333\" fill=\"none\"/>");
        for series in &panel.series {
            let color = series.color;
            match (series.style, series.points.first()) {
                (_, None) => {}
                (Style::Level, Some((_, level))) => {
                    let (y, dashes) = (y(*level), dashes(Style::Level));
                    let _ = writeln!(
                        out,
                        "<path d=\"M{x0:.1} {y:.1}H{x1:.1}\" stroke=\"{color}\" stroke-width=\"2\"{dashes}/>"
                    );
                }
                (Style::Bars(step), _) => {
                    for (at, value) in &series.points {
                        let (from, to, top) = (x(*at), x(at + step), y(*value));
                        let (wide, high) = ((to - from - 1.0).max(1.0), y0 - top);
                        let _ = writeln!(
                            out,
                            "<rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" fill=\"{color}\"/>"
                        );
                    }
                }
                (Style::Line, _) => {
                    let points: Vec<String> =
                        series.points.iter().map(|(a, b)| format!("{:.1},{:.1}", x(*a), y(*b))).collect();
                    let line = points.join(" ");
                    let _ = writeln!(
                        out,
                        "<polyline points=\"{line}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>"
                    );
                    for (a, b) in &series.points {
                        let _ = writeln!(
                            out,
                            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{color}\"/>",
                            x(*a),
                            y(*b)
                        );
                    }
                }
            }
        }
    }
}

fn dashes(style: Style) -> &'static str {
    if style == Style::Level { " stroke-dasharray=\"6 4\"" } else { "" }
}

/// As few digits as say it, with spaces between thousands.
fn number(value: f64) -> String {
    if value >= 10_000.0 {
        return format!("{} {:03}", value as u64 / 1000, value as u64 % 1000);
    }
    if value > 0.0 && value < 0.01 {
        return value.to_string();
    }
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_map_their_ends_and_their_middle() {
        let linear = Scale::linear(1.0, 3.0);
        assert_eq!([0.0, 1.0, 2.0, 3.0, 9.0].map(|v| linear.at(v)), [0.0, 0.0, 0.5, 1.0, 1.0]);
        let log = Scale::log(1.0, 100.0);
        assert!((log.at(10.0) - 0.5).abs() < 1e-9 && log.at(0.0) == 0.0 && log.at(1000.0) == 1.0);
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(Scale::log(20.0, 1000.0).ticks(), [20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        assert_eq!(Scale::log(1.0, 10_000.0).ticks(), [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!(Scale::linear(0.0, 10.0).ticks(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    }

    #[test]
    fn a_scale_around_values_contains_them() {
        let scale = Scale::log_around([53.0, 390.0, 0.0].into_iter());
        assert_eq!((scale.from, scale.to), (50.0, 500.0));
        let one = Scale::log_around([100.0].into_iter());
        assert!(one.from <= 100.0 && one.to > 100.0);
        assert_eq!(Scale::log_around(std::iter::empty()).ticks().len(), 4);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 0.0001, 0.5, 50.0, 1.25, 2000.0, 20_000.0].map(number),
            ["0", "0.0001", "0.5", "50", "1.25", "2000", "20 000"]
        );
    }

    #[test]
    fn a_chart_has_each_name_once_in_its_legend_and_is_well_formed() {
        let series = |name: &str, style| Series {
            name: name.into(),
            color: "#000",
            style,
            points: vec![(1.0, 2.0), (2.0, 4.0)],
        };
        let panel = |title: &str| Panel {
            title: title.into(),
            series: vec![series("a < b", Style::Line), series("floor", Style::Level), series("n", Style::Bars(0.5))],
        };
        let chart = Chart {
            x: ("bytes".into(), Scale::linear(0.0, 4.0)),
            y: ("ns".into(), Scale::log(1.0, 10.0)),
            x_ticks: vec![(1.0, "1".into())],
            panels: vec![panel("near"), panel("far")],
        };
        let text = chart.draw();
        assert_eq!((text.matches("a &lt; b").count(), text.matches("<polyline").count()), (1, 2));
        assert_eq!(text.matches("<rect").count(), 1 + 4);
        assert!(!text.contains("NaN"), "{text}");
    }
}
