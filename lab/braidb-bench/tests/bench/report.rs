//! Reports as a whole: names are escaped, all rows of a table have equally many columns, and any content of runs is shown.

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

/// A report of one run whose figures are all this number.
fn of_one(figure: f64) -> Report {
    let mut one = run("fill", "BraidDB", 600.0);
    one.figures.values_mut().for_each(|own| *own = figure);
    report(vec![one])
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
    let markdown = report.to_markdown();
    for part in [
        "- Loaded stores: leveldb 1.23, loaded from libleveldb.so\n",
        "- Runs: 15 runs of 3 workloads on 3 sides\n",
    ] {
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
    let many = (1..=30).map(|side| run("fill", &format!("side {side}"), 100.0 * f64::from(side))).collect();
    for (name, report) in [
        ("sample", sample()),
        ("nothing", Report::default()),
        ("an empty run", report(vec![Run::default()])),
        ("zeros", of_one(0.0)),
        ("large", of_one(1e18)),
        ("no numbers", of_one(f64::NAN)),
        ("thirty sides", report(many)),
    ] {
        let markdown = report.to_markdown();
        let mut columns = None;
        for line in markdown.lines() {
            if !line.starts_with('|') {
                columns = None;
                continue;
            }
            let count = line.replace("\\|", "").matches('|').count();
            assert_eq!(*columns.get_or_insert(count), count, "{name}: {line}");
        }
        assert!(!markdown.contains("NaN") && !markdown.contains("inf "), "{name}");
    }
}
