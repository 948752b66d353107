//! A chart of operations a second over time, as one file of SVG.

use super::numbers;
use std::fmt::Write;

/// The whole drawing, and the plot within it, in pixels.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 520.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 256.0;
/// The most points of a line. More points would lie too close together to be told apart.
const POINTS: usize = 120;
/// The colours of lines, which repeat.
const COLOURS: [&str; 8] =
    ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f"];

/// Draws a line for each of `sides`: its name, and its operations in each second. The axis of rates is logarithmic, because one device may
/// be a hundred times as fast as another. A rate below its lowest power of ten, such as 0, is drawn there. `None` if no side has two
/// seconds.
///
/// ```
/// use braidb_bench::report::over_time;
///
/// let svg = over_time("Gets", &[("hdd", &[90, 110][..]), ("nvme", &[9_000, 11_000])]).unwrap();
/// assert!(svg.starts_with("<svg ") && svg.contains(">10k</text>"));
/// ```
pub fn over_time(title: &str, sides: &[(&str, &[u64])]) -> Option<String> {
    let longest = sides.iter().map(|(_, seconds)| seconds.len()).max().filter(|longest| *longest > 1)?;
    let width = longest.div_ceil(POINTS);
    let mean = |seconds: &[u64]| seconds.iter().sum::<u64>() as f64 / seconds.len() as f64;
    let lines: Vec<Vec<f64>> =
        sides.iter().map(|(_, seconds)| seconds.chunks(width).map(mean).collect()).collect();
    let rates = || lines.iter().flatten().copied().filter(|rate| *rate > 0.0);
    let least = rates().min_by(f64::total_cmp).unwrap_or(1.0).log10().floor();
    let most = rates().max_by(f64::total_cmp).unwrap_or(1.0).log10().ceil().max(least + 1.0);
    let y = |rate: f64| {
        let share = if rate > 0.0 { (rate.log10() - least) / (most - least) } else { 0.0 };
        BOTTOM - share.max(0.0) * (BOTTOM - TOP)
    };
    let x = |second: f64| LEFT + second / longest as f64 * (RIGHT - LEFT);

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    let mut text = |x: f64, y: f64, anchor: &str, text: &str| {
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escaped(text)
        );
    };
    text(LEFT, 16.0, "start", &format!("{title}: operations a second, logarithmic"));
    text((LEFT + RIGHT) / 2.0, BOTTOM + 34.0, "middle", "seconds from the start");
    for second in [0, longest / 2, longest] {
        text(x(second as f64), BOTTOM + 16.0, "middle", &numbers::grouped(second as f64));
    }
    let powers = least as i32..=most as i32;
    for power in powers.clone() {
        text(LEFT - 6.0, y(10_f64.powi(power)) + 4.0, "end", &numbers::power_of_ten(power));
    }
    for (place, (name, _)) in sides.iter().enumerate() {
        text(RIGHT + 44.0, TOP + 18.0 * place as f64 + 4.0, "start", name);
    }
    for power in powers {
        let height = y(10_f64.powi(power));
        let _ = writeln!(svg, "<path d=\"M{LEFT} {height:.1}H{RIGHT}\" stroke=\"#ddd\"/>");
    }
    for (place, rates) in lines.iter().enumerate() {
        let colour = COLOURS[place % COLOURS.len()];
        let key = TOP + 18.0 * place as f64;
        let mut path = format!("M{:.1} {key:.1}h28", RIGHT + 10.0);
        for (bucket, rate) in rates.iter().enumerate() {
            let middle =
                (bucket * width) as f64 + (width as f64 / 2.0).min(longest as f64 - (bucket * width) as f64);
            let _ = write!(path, "{}{:.1} {:.1}", if bucket == 0 { "M" } else { "L" }, x(middle), y(*rate));
        }
        let _ = writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>");
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// Escapes the letters of a text that XML takes for markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The points of line number `place`. Its path begins with the sample for the key of the chart, which is left out.
    fn points(svg: &str, place: usize) -> Vec<(f64, f64)> {
        let path = svg.split("<path d=\"").filter(|path| path.contains("h28M")).nth(place).unwrap();
        let points = path.split('"').next().unwrap().split("h28M").nth(1).unwrap();
        points
            .split('L')
            .map(|point| point.split_once(' ').unwrap())
            .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
            .collect()
    }

    #[test]
    fn ten_times_as_fast_is_one_step_higher() {
        let svg = over_time("w", &[("slow", &[10, 100][..]), ("fast", &[1_000, 0])]).unwrap();
        let (slow, fast) = (points(&svg, 0), points(&svg, 1));
        let step = (BOTTOM - TOP) / 2.0;
        assert_eq!(slow.iter().map(|point| point.1).collect::<Vec<_>>(), [BOTTOM, BOTTOM - step]);
        assert_eq!(fast.iter().map(|point| point.1).collect::<Vec<_>>(), [TOP, BOTTOM]);
        assert!(slow[0].0 == fast[0].0 && slow[0].0 < slow[1].0 && slow[1].0 < RIGHT);
        for label in [">10<", ">100<", ">1k<", ">slow<", ">fast<", ">2<"] {
            assert!(svg.contains(label), "{label}: {svg}");
        }
    }

    #[test]
    fn long_lines_are_means_and_stay_in_the_plot() {
        let seconds: Vec<u64> = (1..=1_801).collect();
        let points = points(&over_time("w", &[("a", &seconds)]).unwrap(), 0);
        assert_eq!(points.len(), 1_801_usize.div_ceil(16));
        assert!(
            points.iter().all(|(x, y)| (LEFT..=RIGHT).contains(x) && (TOP..=BOTTOM).contains(y)),
            "{points:?}"
        );
    }

    #[test]
    fn odd_lines_are_drawn_and_names_are_no_markup() {
        for seconds in [&[0, 0][..], &[u64::MAX, 1], &[5, 5]] {
            let svg = over_time("<&>", &[("<b>", seconds), ("none", &[])]).unwrap();
            assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("<b>"), "{svg}");
            assert!(svg.contains("&lt;&amp;&gt;: operations"), "{svg}");
        }
        assert_eq!(over_time("w", &[]), None);
        assert_eq!(over_time("w", &[("a", &[7][..])]), None);
    }
}
