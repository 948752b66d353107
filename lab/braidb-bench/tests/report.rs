//! Reports as a whole: names are no markup, tables have one number of columns, and any content of runs is shown.

use braidb_bench::report::Report;
use braidb_bench::results::{Machine, Run};

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

fn report(runs: Vec<Run>) -> Report {
    Report {
        title: format!("Rivals {ODD}"),
        commit: "9794047".to_owned(),
        command: format!("braidb-lab bench {ODD}"),
        date: "2026-11-23".to_owned(),
        runs,
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

#[test]
fn names_are_escaped_everywhere() {
    let markdown = sample().to_markdown();
    assert!(markdown.contains("\n### Tables\n\n    Gets (Figure 6)\n\n      <b>"), "{markdown}");
    assert!(markdown.contains("&lt;b>&amp;\"'\\|\\`\\*\\_x\\_ http"), "{markdown}");
    let svg = sample().over_time(ODD).unwrap();
    assert!(svg.contains("&lt;b&gt;&amp;") && !svg.contains("<b>"), "{svg}");
}

#[test]
fn a_report_tells_its_circumstances_or_that_it_has_none() {
    let empty = Report::default().to_markdown();
    assert!(empty.contains("Nothing is recorded") && empty.contains("No run has a figure to summarize."));
    let mut report = sample();
    report.runs[3].origin = "leveldb 1.23, loaded from libleveldb.so".to_owned();
    let markdown = report.to_markdown().replace('\n', " ");
    for part in
        ["Loaded stores: leveldb 1.23, loaded from libleveldb.so.", "15 runs of 3 workloads on 3 sides."]
    {
        assert!(markdown.contains(part), "{markdown}");
    }
}

#[test]
fn medians_stand_beside_the_best_other_store() {
    let markdown = sample().to_markdown();
    assert!(
        markdown.contains("| fill | 600 ±17% |") && markdown.contains("| behind LevelDB by 1.9 times |"),
        "{markdown}"
    );
    assert!(sample().over_time("no workload").is_none());
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
