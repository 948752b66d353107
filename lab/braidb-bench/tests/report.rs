//! Reports as a whole: they are well-formed, load nothing, and are complete for any content of runs.

use braidb_bench::report::Report;
use braidb_bench::results::{Limit, Machine, Pair, PairedFigure, Run};
use quick_xml::Reader;
use quick_xml::events::Event;
use std::collections::BTreeSet;

/// A name that would be markup if it were not escaped.
const ODD: &str = "<b>&\"'|`*_x_ http://x src=y url(z)";

fn run(workload: &str, side: &str, rate: f64) -> Run {
    let figures = [
        ("operations_per_second", rate),
        ("cpu_us_per_operation", 1e6 / rate),
        ("written_per_user_byte", 4.2),
        ("p99_us", 3e6 / rate),
        ("checked", 1000.0),
        ("stall_us", 12.0),
    ];
    Run {
        workload: workload.to_owned(),
        side: side.to_owned(),
        seed: 7,
        figures: figures.map(|(name, figure)| (name.to_owned(), figure)).into(),
        bytes_by_cause: [("log", 1000), ("flush", 900), ("merge_l1", 1 << 40)]
            .map(|(cause, bytes)| (cause.to_owned(), bytes))
            .into(),
        operations_by_second: vec![rate as u64, rate as u64 / 2, 3],
        percentiles_us: vec![(0.0, 0.4), (50.0, 1.0), (99.0, 3e6 / rate), (99.999, 90.0), (100.0, 4e6)],
        machine: Machine {
            load: 0.5,
            steal_seconds: 0.25,
            device: "ext4 on /dev/vda".to_owned(),
            processor: "2 x Quick 9".to_owned(),
        },
        origin: String::new(),
    }
}

fn figure(name: &str, median: f64, spread: f64, limit: Option<Limit>) -> PairedFigure {
    PairedFigure {
        name: name.to_owned(),
        ratios: vec![median; 7],
        ratios_of_same: vec![1.0; 7],
        median,
        spread,
        spread_of_same: spread,
        limit,
    }
}

fn report(runs: Vec<Run>) -> Report {
    let figures = vec![
        figure("operations_per_second", 0.99, 0.01, Some(Limit::AtLeast(0.97))),
        figure("p99_us", 230.0, 9.0, Some(Limit::AtMost(1.1))),
        figure("longest_us", f64::INFINITY, f64::INFINITY, None),
        figure("called_bytes", f64::NAN, f64::NAN, Some(Limit::AtMost(1.1))),
        figure("mapped_bytes", 0.0, 0.0, None),
    ];
    let pair = Pair { workload: "fill".to_owned(), a: ODD.to_owned(), b: "old".to_owned(), figures };
    Report {
        title: format!("Rivals {ODD}"),
        commit: "9794047".to_owned(),
        command: format!("braidb-lab bench {ODD}"),
        date: "2026-11-23".to_owned(),
        runs,
        pairs: vec![pair, Pair::default()],
        tables: format!("Gets (Figure 6)\n\n  {ODD}  587\n"),
    }
}

fn sample() -> Report {
    let rates =
        [("BraidDB", 500.0), ("BraidDB", 700.0), ("BraidDB", 600.0), ("LevelDB", 1140.0), (ODD, 20.0)];
    let workloads = ["fill", "read_random", ODD];
    report(
        workloads.iter().flat_map(|workload| rates.map(|(side, rate)| run(workload, side, rate))).collect(),
    )
}

/// Every report that the tests below check.
fn all() -> Vec<(&'static str, Report)> {
    let only = |change: &dyn Fn(&mut Run)| {
        let mut one = run("fill", "BraidDB", 600.0);
        change(&mut one);
        report(vec![one])
    };
    let many =
        (0..30).map(|side| run("fill", &format!("side {side}"), 100.0 * f64::from(side + 1))).collect();
    vec![
        ("sample", sample()),
        ("nothing", Report::default()),
        ("an empty run", report(vec![Run::default()])),
        (
            "one point",
            only(&|run| {
                run.operations_by_second = vec![5];
                run.percentiles_us = vec![(50.0, 2.0)];
            }),
        ),
        (
            "zeros",
            only(&|run| {
                run.operations_by_second = vec![0; 4];
                run.percentiles_us = vec![(0.0, 0.0), (100.0, 0.0)];
                run.bytes_by_cause.values_mut().for_each(|bytes| *bytes = 0);
                run.figures.values_mut().for_each(|figure| *figure = 0.0);
            }),
        ),
        (
            "an outlier",
            only(&|run| {
                run.operations_by_second = vec![1, 1, u64::MAX, 1];
                run.percentiles_us = vec![(50.0, 1e-9), (100.0, 1e15)];
                run.bytes_by_cause.values_mut().for_each(|bytes| *bytes = u64::MAX);
                run.figures.values_mut().for_each(|figure| *figure = 1e18);
            }),
        ),
        (
            "no numbers",
            only(&|run| {
                run.percentiles_us = vec![(f64::NAN, 1.0), (50.0, f64::INFINITY), (120.0, 1.0), (99.0, -1.0)];
                run.figures.values_mut().for_each(|figure| *figure = f64::NAN);
            }),
        ),
        ("a long run", only(&|run| run.operations_by_second = (0..1801).collect())),
        ("thirty sides", report(many)),
    ]
}

/// The names of the elements and their attributes. Fails where elements do not nest, or an attribute or entity is broken.
fn elements(html: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut reader = Reader::from_str(html);
    let mut open = Vec::new();
    let mut elements = Vec::new();
    loop {
        let event =
            reader.read_event().unwrap_or_else(|error| panic!("at {}: {error}", reader.buffer_position()));
        let name = |raw: &str| raw.to_owned();
        match &event {
            Event::Start(element) | Event::Empty(element) => {
                let attributes = element.attributes().map(|attribute| {
                    let attribute = attribute.unwrap();
                    let value = attribute.value.into_owned();
                    assert!(!value.contains(['<', '>', '"']), "{value}");
                    (name(attribute.key.as_ref()), value)
                });
                elements.push((name(element.name().as_ref()), attributes.collect()));
                if matches!(event, Event::Start(_)) {
                    open.push(name(element.name().as_ref()));
                }
            }
            Event::End(element) => assert_eq!(open.pop(), Some(name(element.name().as_ref()))),
            Event::Eof => break,
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?} never end");
    elements
}

#[test]
fn pages_are_well_formed_and_whole() {
    for (name, report) in all() {
        let html = report.to_html();
        let elements = elements(&html);
        let mut ids = BTreeSet::new();
        for (element, attributes) in &elements {
            assert!(
                !["script", "link", "img", "iframe", "b"].contains(&element.as_str()),
                "{name}: {element}"
            );
            for (key, value) in attributes {
                assert!(key != "id" || ids.insert(value.clone()), "{name}: the id {value} comes twice");
                let is_number =
                    ["x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "width", "height"].contains(&key.as_str());
                assert!(
                    !is_number || value.parse::<f64>().is_ok_and(f64::is_finite),
                    "{name}: {key}={value}"
                );
            }
        }
        // Each reference from a chart to its title, and from the contents to a section, has a target.
        for (key, value) in elements.iter().flat_map(|(_, attributes)| attributes) {
            let aims = match key.as_str() {
                "aria-labelledby" => value.split(' ').collect(),
                "href" => vec![value.strip_prefix('#').expect("links stay on the page")],
                _ => Vec::new(),
            };
            assert!(aims.iter().all(|aim| ids.contains(*aim)), "{name}: {value}");
        }
        let charts = elements.iter().filter(|(element, _)| element == "figure").count();
        assert_eq!(charts, elements.iter().filter(|(element, _)| element == "figcaption").count());
        assert_eq!(charts, html.matches("<details><summary>The numbers of").count(), "{name}");
    }
}

#[test]
fn a_page_needs_nothing_from_elsewhere() {
    let mut report = sample();
    for text in [&mut report.title, &mut report.command, &mut report.tables, &mut report.pairs[0].a] {
        *text = "plain".to_owned();
    }
    report.runs.retain(|run| run.workload != ODD && run.side != ODD);
    let html = report.to_html();
    for reference in ["http", "src=", "url(", "@import", "<script", "<link"] {
        assert!(!html.contains(reference), "{reference}");
    }
}

#[test]
fn names_are_escaped_everywhere() {
    let html = sample().to_html();
    assert!(html.contains("&lt;b&gt;&amp;&quot;&#39;") && !html.contains("<b>"));
    assert!(html.contains("<pre tabindex=\"0\">Gets (Figure 6)\n\n  &lt;b&gt;"), "{html}");
    let markdown = sample().to_markdown();
    assert!(markdown.contains("\n### Tables\n\n    Gets (Figure 6)\n\n      <b>"), "{markdown}");
    assert!(markdown.contains("&lt;b>&amp;\"'\\|\\`\\*\\_x\\_ http"), "{markdown}");
}

#[test]
fn the_same_report_gives_the_same_bytes() {
    for (name, report) in all() {
        assert!(report.to_html() == report.clone().to_html(), "{name}");
        assert!(report.to_markdown() == report.clone().to_markdown(), "{name}");
    }
    let again: Report =
        serde_json::from_str(&serde_json::to_string(&Report { pairs: vec![], ..sample() }).unwrap()).unwrap();
    assert!(again.to_html() == Report { pairs: vec![], ..sample() }.to_html());
}

#[test]
fn empty_sections_say_so() {
    let html = Report::default().to_html();
    for sentence in [
        "Nothing is recorded about this measurement.",
        "No run has a figure to summarize.",
        "No run recorded operations by second.",
        "No run recorded latencies by percentile.",
        "No run tells what its bytes were written for.",
        "No sides were compared in turns.",
        "No run has a figure beside those above.",
    ] {
        assert!(html.contains(sentence), "{sentence}");
    }
    assert!(!html.contains("<svg"));
    assert!(Report::default().to_markdown().contains("No run has a figure to summarize."));
}

#[test]
fn medians_and_the_middle_run_are_shown() {
    let html = sample().to_html();
    assert!(
        html.contains("<td>600<small>500 to 700</small><small>behind LevelDB by 1.9 times</small></td>"),
        "{html}"
    );
    let markdown = sample().to_markdown();
    assert!(
        markdown.contains("| fill | 600 ±17% |") && markdown.contains("| behind LevelDB by 1.9 times |"),
        "{markdown}"
    );
    // The middle run has 300 operations in its second second.
    assert!(html.contains("<tr><th scope=\"row\">1</th><td>300</td><td>570</td><td>10</td></tr>"));
}

#[test]
fn verdicts_are_in_both_forms() {
    let html = sample().to_html();
    assert_eq!((html.matches(">PASS</text>").count(), html.matches(">FAIL</text>").count()), (1, 2));
    let markdown = sample().to_markdown();
    assert!(markdown.contains("| p99 | 230.000 | 9.000 | 9.000 | ≤ 1.1 | FAIL |"), "{markdown}");
    assert!(markdown.contains("| max | infinite | infinite | infinite | — | — |"), "{markdown}");
}

#[test]
fn markdown_tables_have_one_number_of_columns() {
    for (name, report) in all() {
        let markdown = report.to_markdown();
        let mut columns = None;
        for line in markdown.lines() {
            if !line.starts_with('|') {
                columns = None;
                let is_one_word = line.trim_start_matches("- ").split(' ').count() == 1;
                assert!(line.chars().count() <= 140 || is_one_word, "{name}: {line}");
                continue;
            }
            let count = line.replace("\\|", "").matches('|').count();
            assert_eq!(*columns.get_or_insert(count), count, "{name}: {line}");
        }
        assert!(!markdown.contains("NaN") && !markdown.contains("inf "), "{name}");
    }
}
