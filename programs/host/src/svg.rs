//! A plane of numbers as a picture.

use std::fmt::Write;

/// Cells at most along each side, and the length of the longer side.
const CELLS: usize = 128;
const SIDE: f64 = 640.0;
/// Space beside the plane, for ticks and names, and above it, for the title.
const LEFT: f64 = 64.0;
const TOP: f64 = 40.0;
/// Ticks of an axis at most.
const TICKS: usize = 5;
/// Colours from the least to the greatest, and steps between two of them.
const COLOURS: [[f64; 3]; 5] =
    [[48.0, 18.0, 59.0], [62.0, 117.0, 207.0], [94.0, 201.0, 98.0], [244.0, 184.0, 52.0], [122.0, 4.0, 3.0]];
const STEPS: usize = 64;

/// A colour of a number from 0 to 1.
fn colour(at: f64) -> String {
    let at = at.clamp(0.0, 1.0) * (COLOURS.len() - 1) as f64;
    let (below, part) = ((at as usize).min(COLOURS.len() - 2), at.fract() + f64::from(u8::from(at >= 4.0)));
    let rgb: [u8; 3] =
        std::array::from_fn(|c| (COLOURS[below][c] + part * (COLOURS[below + 1][c] - COLOURS[below][c])).round() as u8);
    format!("#{:02x}{:02x}{:02x}", rgb[0], rgb[1], rgb[2])
}

/// An SVG image of a plane: rows from top to bottom, with a scale of colours. Of more than 128 rows or
/// columns some are left out.
pub fn plane(title: &str, [down, across]: [&str; 2], rows: &[Vec<f32>]) -> String {
    let (height, width) = (rows.len(), rows.first().map_or(0, Vec::len));
    let numbers = || rows.iter().flatten().copied().filter(|x| x.is_finite());
    let (least, most) = (numbers().fold(f32::INFINITY, f32::min), numbers().fold(f32::NEG_INFINITY, f32::max));
    let (by_row, by_column) = (height.div_ceil(CELLS).max(1), width.div_ceil(CELLS).max(1));
    let cell = SIDE / height.max(width).max(1) as f64;
    let (w, h) = (width as f64 * cell, height as f64 * cell);
    let step = |x: f32| ((x - least) / (most - least).max(f32::MIN_POSITIVE) * (STEPS - 1) as f32).round() as usize;
    let shade = |step: usize| colour(step as f64 / (STEPS - 1) as f64);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0} {:.0}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"24\" font-size=\"16\">{title}</text>\n\
         <g transform=\"translate({LEFT} {TOP})\" shape-rendering=\"crispEdges\">\n",
        LEFT + w + 100.0,
        TOP + h + 48.0
    );
    for i in (0..height).step_by(by_row) {
        let row: Vec<_> = rows[i].iter().step_by(by_column).map(|x| step(*x)).collect();
        let mut at = 0;
        // Neighbours of one colour are one rectangle.
        for part in row.chunk_by(|a, b| a == b) {
            let (x, y) = ((at * by_column) as f64 * cell, i as f64 * cell);
            let (across, down) = ((part.len() * by_column) as f64 * cell, by_row as f64 * cell);
            let fill = shade(part[0]);
            let (across, down) = (across.min(w - x), down.min(h - y));
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{across:.2}\" height=\"{down:.2}\" fill=\"{fill}\"/>"
            );
            at += part.len();
        }
    }
    for nth in 0..STEPS {
        let y = h * (STEPS - 1 - nth) as f64 / STEPS as f64;
        let fill = shade(nth);
        let _ = writeln!(
            svg,
            "<rect x=\"{:.2}\" y=\"{y:.2}\" width=\"16\" height=\"{:.2}\" fill=\"{fill}\"/>",
            w + 20.0,
            h / STEPS as f64
        );
    }
    for at in ticks(width) {
        let x = (at as f64 + 0.5) * cell;
        let _ = writeln!(svg, "<path d=\"M{x:.2} {h:.2}v5\" stroke=\"#333\"/>");
        let _ = writeln!(svg, "<text x=\"{x:.2}\" y=\"{:.2}\" text-anchor=\"middle\">{at}</text>", h + 18.0);
    }
    for at in ticks(height) {
        let y = (at as f64 + 0.5) * cell;
        let _ = writeln!(svg, "<path d=\"M0 {y:.2}h-5\" stroke=\"#333\"/>");
        let _ = writeln!(svg, "<text x=\"-8\" y=\"{:.2}\" text-anchor=\"end\">{at}</text>", y + 4.0);
    }
    let _ = write!(
        svg,
        "</g>\n<text x=\"{0:.0}\" y=\"{1:.0}\">{most:.4}</text>\n<text x=\"{0:.0}\" y=\"{2:.0}\">{least:.4}</text>\n\
         <text x=\"{3:.0}\" y=\"{4:.0}\" text-anchor=\"middle\">{across}</text>\n\
         <text x=\"20\" y=\"{5:.0}\" text-anchor=\"middle\" transform=\"rotate(-90 20 {5:.0})\">{down}</text>\n</svg>\n",
        LEFT + w + 40.0,
        TOP + 10.0,
        TOP + h,
        LEFT + w / 2.0,
        TOP + h + 38.0,
        TOP + h / 2.0,
    );
    svg
}

/// The indices with a tick: the first, the last, and some between.
fn ticks(cells: usize) -> impl Iterator<Item = usize> {
    let (last, parts) = (cells.saturating_sub(1), cells.clamp(1, TICKS) - 1);
    (0..=parts).take(cells).map(move |nth| (last * nth).checked_div(parts).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_a_tick_at_each_end() {
        let of = |cells| ticks(cells).collect::<Vec<_>>();
        assert_eq!([0, 1, 2, 5].map(of), [vec![], vec![0], vec![0, 1], vec![0, 1, 2, 3, 4]]);
        assert_eq!(of(129), [0, 32, 64, 96, 128]);
    }

    #[test]
    fn a_plane_has_its_colours() {
        let svg = plane("a field", ["i", "k"], &[vec![0.0, 0.0, 1.0], vec![0.5, 1.0, 1.0]]);
        let (low, high) = (colour(0.0), colour(1.0));
        assert_eq!((low.as_str(), high.as_str()), ("#30123b", "#7a0403"));
        assert!(svg.contains(&format!("width=\"426.67\" height=\"213.33\" fill=\"{low}\"")), "{svg}");
        assert!(svg.contains(&format!("x=\"213.33\" y=\"213.33\" width=\"426.67\" height=\"213.33\" fill=\"{high}\"")));
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains(">a field</text>"));
        // A plane of one value, of none, and of what is no number.
        for rows in [vec![vec![2.0; 300]; 2], vec![], vec![vec![f32::NAN, 1.0]]] {
            assert!(plane("", ["", ""], &rows).ends_with("</svg>\n"));
        }
    }
}
