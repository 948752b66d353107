//! Shapes of SVG, positions on axes, and the look of each series. A chart is 440 units wide, so that two fit beside each other on a screen
//! and one is readable on a phone.

use super::html::escaped;
use std::fmt::Write;

/// The width of every chart, in units that are pixels at the usual size.
pub const WIDTH: f64 = 440.0;

/// The mean width of a letter in labels of 13 units, rounded up for wide fonts.
const LETTER_WIDTH: f64 = 7.2;

/// The dashes of lines, so that a reader can tell lines apart without colours.
const DASHES: [&str; 7] = ["", "7 3", "2 3", "9 3 2 3", "4 4", "12 4", "6 2 2 2 2 2"];

/// The number of colours in the style sheet.
pub const COLOURS: usize = 8;

/// Which side of its position a text is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing that is being built.
#[derive(Debug, Default)]
pub struct Svg {
    body: String,
}

impl Svg {
    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.put(format_args!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\" class=\"{class}\">{}</text>",
            at(x),
            at(y),
            escaped(text)
        ));
    }

    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(at);
        self.put(format_args!("<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" class=\"{class}\"/>"));
    }

    /// A rectangle that shows `title` below the pointer.
    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str, title: &str) {
        debug_assert!(width >= 0.0 && height >= 0.0, "{title}: {width} x {height}");
        let [x, y, width, height] = [x, y, width, height].map(at);
        self.put(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" class=\"{class}\"><title>{}</title></rect>",
            escaped(title)
        ));
    }

    /// A line through `points` with the dashes and the colour of the series `series`.
    pub fn curve(&mut self, points: &[(f64, f64)], series: usize, class: &str) {
        let mut path = String::new();
        for (number, (x, y)) in points.iter().enumerate() {
            let step = if number == 0 { "M" } else { "L" };
            let _ = write!(path, "{step}{} {}", at(*x), at(*y));
        }
        let (colour, dash) = (series % COLOURS, dash(series));
        self.put(format_args!("<path d=\"{path}\" class=\"curve s{colour} {class}\"{dash}/>"));
    }

    /// The mark of a series: a circle, square, triangle or diamond.
    pub fn mark(&mut self, (x, y): (f64, f64), series: usize) {
        let shape = match series % 4 {
            0 => return self.circle((x, y), &format!("mark s{}", series % COLOURS)),
            1 => [(-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)].as_slice(),
            2 => [(0.0, -4.5), (4.5, 3.5), (-4.5, 3.5)].as_slice(),
            _ => [(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)].as_slice(),
        };
        self.polygon((x, y), shape, &format!("mark s{}", series % COLOURS));
    }

    pub fn circle(&mut self, (x, y): (f64, f64), class: &str) {
        self.put(format_args!("<circle cx=\"{}\" cy=\"{}\" r=\"4\" class=\"{class}\"/>", at(x), at(y)));
    }

    /// A filled shape, whose `corners` are relative to its middle.
    pub fn polygon(&mut self, (x, y): (f64, f64), corners: &[(f64, f64)], class: &str) {
        let corners: Vec<String> =
            corners.iter().map(|(right, down)| format!("{},{}", at(x + right), at(y + down))).collect();
        self.put(format_args!("<polygon points=\"{}\" class=\"{class}\"/>", corners.join(" ")));
    }

    /// The finished element with its title and description. `id` is unique on the page.
    pub fn finish(self, id: &str, height: f64, title: &str, description: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\n\
             <title id=\"{id}-t\">{}</title>\n<desc id=\"{id}-d\">{}</desc>\n{}</svg>\n",
            at(height),
            escaped(title),
            escaped(description),
            self.body
        )
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.body, "{element}");
    }
}

/// The entry of a series in a legend: its line and its mark, or a square of its colour.
pub fn key(series: usize, is_line: bool) -> String {
    let mut svg = Svg::default();
    if is_line {
        svg.curve(&[(0.0, 7.0), (36.0, 7.0)], series, "");
        svg.mark((18.0, 7.0), series);
        return format!(
            "<svg class=\"key\" width=\"36\" height=\"14\" aria-hidden=\"true\">{}</svg>",
            svg.body
        );
    }
    let class = fill(series);
    svg.rect((0.0, 1.0), (12.0, 12.0), &class, "");
    format!("<svg class=\"key\" width=\"12\" height=\"14\" aria-hidden=\"true\">{}</svg>", svg.body)
}

/// The class of a filled area. After the last colour the colours repeat, paler.
pub fn fill(series: usize) -> String {
    let pale = if series < COLOURS { "" } else { " pale" };
    format!("area s{}{pale}", series % COLOURS)
}

fn dash(series: usize) -> String {
    match DASHES[series % DASHES.len()] {
        "" => String::new(),
        dash => format!(" stroke-dasharray=\"{dash}\""),
    }
}

/// A coordinate with one decimal, without a zero behind the point.
pub fn at(value: f64) -> String {
    debug_assert!(value.is_finite(), "a coordinate is {value}");
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// The greatest width of a bold label.
pub fn strong_width_of(text: &str) -> f64 {
    width_of(text) * 1.12
}

/// The greatest width of a label of 13 units.
pub fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER_WIDTH
}

/// The beginning of `text`, with an ellipsis if it has more than `letters` letters.
pub fn shortened(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let beginning: String = text.chars().take(letters.saturating_sub(1)).collect();
    format!("{}…", beginning.trim_end())
}

/// The ticks of an axis from zero on, with a step of 1, 2 or 5 times a power of ten. The last tick is the first that is not below `most`.
/// At most `steps` ticks follow zero.
pub fn ticks(most: f64, steps: usize) -> Vec<f64> {
    if !(most > 0.0 && most.is_finite()) {
        return vec![0.0, 1.0];
    }
    let power = 10_f64.powi((most / steps as f64).log10().floor() as i32);
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
    let step = step.into_iter().find(|step| most / step <= steps as f64).unwrap_or(step[3]);
    let count = (most / step - 1e-9).ceil().max(1.0) as usize;
    (0..=count).map(|number| number as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!(ticks(605_000.0, 4), [0.0, 200_000.0, 400_000.0, 600_000.0, 800_000.0]);
        assert_eq!(ticks(1.0, 5), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(ticks(0.0, 4), [0.0, 1.0]);
        for most in [0.003, 1.0, 9.9, 10.0, 12_345.0, 1e12] {
            let ticks = ticks(most, 4);
            assert!(ticks.len() <= 5 && ticks[ticks.len() - 1] >= most * 0.999_999, "{most}: {ticks:?}");
            assert!(ticks[ticks.len() - 2] < most, "{most}: {ticks:?}");
        }
    }

    #[test]
    fn texts_and_coordinates_are_short() {
        assert_eq!([1.0, -0.01, 2.25, 2.96].map(at), ["1", "0", "2.2", "3"]);
        assert_eq!(shortened("BraidDB cache 1 GiB", 14), "BraidDB cache…");
        assert_eq!(shortened("LMDB", 14), "LMDB");
    }

    #[test]
    fn series_differ_by_colour_or_stroke() {
        let looks: std::collections::BTreeSet<(usize, String)> =
            (0..56).map(|series| (series % COLOURS, dash(series))).collect();
        assert_eq!(looks.len(), 56);
    }
}
