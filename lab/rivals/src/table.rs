//! `table DIR ROWS`: all workloads on all stores. Each run is a process of its own, and stores take turns within a round. Each result is
//! added to the file ROWS at once, so that an interrupted table goes on where it ended.
//!
//! Workloads that follow each other on one store are a *course*: it begins with a fill. At its end `table` prints all rows of the file as
//! Markdown.

use crate::Outcome;
use crate::stores::Kind;
use braidb_bench::host::machine::Watch;
use braidb_bench::report::Report;
use braidb_bench::results::Run;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Measure all workloads on all stores, in turns
#[derive(clap::Args)]
pub struct Args {
    /// A directory, which is created if its parent exists; stores lie in it, one at a time
    dir: PathBuf,
    /// Results, a JSON object a line; those that are there already are not measured again
    rows: PathBuf,
    /// Stores [default: all that can be loaded]
    #[arg(long, value_enum, value_delimiter = ',')]
    stores: Vec<Kind>,
    /// Stores that are left out
    #[arg(long, value_enum, value_delimiter = ',')]
    without: Vec<Kind>,
    /// Courses, by name [default: all]
    #[arg(long, value_delimiter = ',')]
    courses: Vec<String>,
    /// Rounds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// A put returns when it is on stable storage; a table of such rows needs a file of its own
    #[arg(long)]
    sync: bool,
    /// Keys
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    num: u64,
}

/// Workloads on one store, each on the data that the previous one left.
struct Course {
    name: &'static str,
    workloads: &'static [&'static str],
    /// Options of this course, in addition to the options of all courses.
    options: &'static [&'static str],
}

const COURSES: [Course; 10] = [
    Course {
        name: "random",
        workloads: &["fillrandom", "overwrite", "readrandom", "readmissing", "seekrandom", "seeklong"],
        options: &[],
    },
    Course { name: "in-order", workloads: &["fillseq", "readrandom", "seekrandom"], options: &[] },
    Course {
        name: "ycsb",
        workloads: &["ycsb-load", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-f", "ycsb-d"],
        options: &[],
    },
    Course { name: "ycsb-e", workloads: &["ycsb-load", "ycsb-e"], options: &[] },
    Course {
        name: "logstore",
        workloads: &["fillrandom", "logstore-rmw", "logstore-b90", "logstore-b10", "logstore-write"],
        options: &[],
    },
    Course { name: "ends", workloads: &["updaterandom", "queue", "timeline"], options: &[] },
    // Each pop looks for the smallest key behind the tombstones of all earlier pops. LevelDB's memtable keeps these tombstones: a million
    // pops did not end within five minutes.
    Course { name: "pushpop", workloads: &["pushpop"], options: &["--operations", "20000"] },
    Course {
        name: "beside-writes",
        workloads: &["fillrandom", "mixed", "getwhilewriting", "seekwhilewriting"],
        options: &["--write-rate", "50000"],
    },
    Course {
        name: "families",
        workloads: &["fillrandom", "overwrite", "readrandom", "seekrandom"],
        options: &["--families", "64"],
    },
    // In 20 seconds `bursts` puts for 10 seconds and gets for 10 seconds.
    Course { name: "bursts", workloads: &["fillrandom", "bursts"], options: &["--seconds", "20"] },
];

/// The runs that were measured already: store, course and round. The round is the seed.
type Known = Vec<(String, &'static str, u64)>;

pub fn run(args: &Args) -> Outcome {
    let unknown = args.courses.iter().find(|name| COURSES.iter().all(|course| course.name != name.as_str()));
    if let Some(name) = unknown {
        let names: Vec<&str> = COURSES.iter().map(|course| course.name).collect();
        return Err(format!("there is no course {name}; there are {}", names.join(", ")).into());
    }
    if !args.dir.exists() {
        fs::create_dir(&args.dir)
            .map_err(|error| format!("could not create {}: {error}", args.dir.display()))?;
    }
    let stores = stores(args)?;
    let known = known_in(&rows_in(&args.rows)?);
    let is_chosen =
        |course: &&Course| args.courses.is_empty() || args.courses.iter().any(|name| name == course.name);
    for round in 1..=args.rounds {
        for course in COURSES.iter().filter(is_chosen) {
            // Each round begins with another store, so that no store always follows the same one.
            for place in 0..stores.len() {
                let store = stores[(place + round as usize) % stores.len()];
                if !known.contains(&(store.name(), course.name, round)) {
                    eprintln!("round {round}: {}, {}", course.name, store.name());
                    measure(args, store, course, round)?;
                }
            }
        }
    }
    print!("{}", rows_in(&args.rows)?.to_markdown());
    Ok(())
}

/// The stores to measure. A store that is not named and cannot be loaded is left out, and a line says so.
fn stores(args: &Args) -> Outcome<Vec<Kind>> {
    let asked_for: &[Kind] = if args.stores.is_empty() { &Kind::MEASURED } else { &args.stores };
    let mut stores = Vec::new();
    for store in asked_for.iter().filter(|store| !args.without.contains(store)) {
        match store.origin() {
            Ok(origin) => {
                origin.into_iter().for_each(|origin| eprintln!("{origin}"));
                stores.push(*store);
            }
            Err(error) if args.stores.is_empty() => eprintln!("{} is left out: {error}", store.name()),
            Err(error) => return Err(format!("{}: {error}", store.name()).into()),
        }
    }
    match stores.is_empty() {
        true => Err("--without leaves no store to measure; name fewer".into()),
        false => Ok(stores),
    }
}

/// The name of a workload in rows. It includes the course, because a workload meets different data in different courses.
fn label(course: &Course, workload: &str) -> String {
    format!("{}: {workload}", course.name)
}

/// The rows of the file, which may be missing.
fn rows_in(rows: &Path) -> Outcome<Report> {
    let mut report = Report { title: "Stores beside each other".to_owned(), ..Report::default() };
    if rows.exists() {
        report.add_rows(&rows.display().to_string(), &fs::read_to_string(rows)?)?;
    }
    Ok(report)
}

/// The courses that the rows hold. A run that failed left no row of its last workload, so its course is not among them.
fn known_in(rows: &Report) -> Known {
    let course_of = |run: &Run| {
        let is_last = |course: &&Course| {
            course.workloads.last().is_some_and(|workload| label(course, workload) == run.workload)
        };
        COURSES.iter().find(is_last).map(|course| (run.side.clone(), course.name, run.seed))
    };
    rows.runs.iter().filter_map(course_of).collect()
}

/// Runs a course on a store in a process of its own, and adds its results.
fn measure(args: &Args, store: Kind, course: &Course, round: u64) -> Outcome {
    let mut line: Vec<OsString> = vec!["run".into(), store.name().into(), args.dir.clone().into()];
    line.extend(course.workloads.iter().chain(course.options).map(OsString::from));
    for (option, value) in [("--num", args.num), ("--seed", round)] {
        line.extend([option.into(), value.to_string().into()]);
    }
    line.extend(args.sync.then(|| "--sync".into()));
    line.push("--json".into());
    let watch = Watch::start(&args.dir);
    let out = output_of(&line)?;
    let machine = watch.stop();
    let mut file = OpenOptions::new().create(true).append(true).open(&args.rows)?;
    let mut rows = String::new();
    for line in out.lines() {
        let run: Run = serde_json::from_str(line)?;
        let run = Run { workload: label(course, &run.workload), machine: machine.clone(), ..run };
        rows += &serde_json::to_string(&run)?;
        rows.push('\n');
    }
    // All rows are written at once, so that an interrupted table holds whole courses.
    Ok(file.write_all(rows.as_bytes())?)
}

/// Runs this program in a process of its own, so that processor time, bytes and memory of each run are counted apart. Returns its standard
/// output.
fn output_of(arguments: &[OsString]) -> Outcome<String> {
    let program = std::env::current_exe()?;
    let output =
        Command::new(&program).args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("could not run {}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!("{arguments:?} ended with {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidb_bench::Workload;

    #[test]
    fn courses_name_workloads_and_begin_empty() {
        for course in &COURSES {
            let workloads: Vec<&Workload> =
                course.workloads.iter().map(|name| Workload::named(name).expect(name)).collect();
            assert!(workloads[0].starts_empty(), "{}", course.name);
            for pair in workloads.windows(2) {
                let is_kept = pair[0].fills() || pair[0].keeps_the_keys();
                assert!(is_kept || pair[1].starts_empty(), "{}: {}", course.name, pair[1].name);
            }
        }
        let measured =
            |workload: &&Workload| COURSES.iter().any(|course| course.workloads.contains(&workload.name));
        let left_out: Vec<&str> = braidb_bench::WORKLOADS
            .iter()
            .filter(|workload| !measured(workload))
            .map(|workload| workload.name)
            .collect();
        // A workload for a paper's experiment, which ends with modelled time.
        assert_eq!(left_out, ["readmoved"], "all other workloads are in the table");
    }

    #[test]
    fn a_table_goes_on_where_it_ended() {
        let dir = std::env::temp_dir().join(format!("rivals-table-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let rows = dir.join("rows.jsonl");
        assert_eq!(known_in(&rows_in(&rows).unwrap()), []);
        let run = |workload: &str, seed| {
            let workload = format!("in-order: {workload}");
            let run = Run { workload, side: "lmdb".to_owned(), seed, ..Run::default() };
            format!("{}\n", serde_json::to_string(&run).unwrap())
        };
        fs::write(&rows, run("fillseq", 1) + &run("seekrandom", 1) + &run("fillseq", 2)).unwrap();
        assert_eq!(known_in(&rows_in(&rows).unwrap()), [("lmdb".to_owned(), "in-order", 1)]);
        fs::write(&rows, "{").unwrap();
        assert!(rows_in(&rows).unwrap_err().to_string().contains("line 1"));
        fs::remove_dir_all(&dir).unwrap();
    }
}
