//! A plane of numbers as a picture.

use std::fmt::Write;

/// Cells at most along each side, and the length of the longer side.
const CELLS: usize = 128;
const SIDE: f64 = 640.0;
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
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"40\" y=\"24\" font-size=\"16\">{title}</text>\n\
         <g transform=\"translate(40 40)\" shape-rendering=\"crispEdges\">\n",
        w + 140.0,
        h + 80.0
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
    let _ = write!(
        svg,
        "</g>\n<text x=\"{0:.0}\" y=\"50\">{most:.4}</text>\n<text x=\"{0:.0}\" y=\"{1:.0}\">{least:.4}</text>\n\
         <text x=\"{2:.0}\" y=\"{3:.0}\" text-anchor=\"middle\">{across}</text>\n\
         <text x=\"24\" y=\"{4:.0}\" text-anchor=\"middle\" transform=\"rotate(-90 24 {4:.0})\">{down}</text>\n</svg>\n",
        w + 80.0,
        h + 40.0,
        40.0 + w / 2.0,
        h + 62.0,
        40.0 + h / 2.0,
    );
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

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
