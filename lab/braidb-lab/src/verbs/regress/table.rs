//! Reads the table of lines. The first lines of lines.txt describe its form.

use super::figures;
use std::collections::BTreeMap;

/// What a line measures or runs, and its floors.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pub name: String,
    pub sentence: String,
    /// Whether other measurements on this machine must wait while the line runs.
    pub is_alone: bool,
    pub rounds: usize,
    /// Numbers for commands and figures, by name. An environment variable of the same name overrides one.
    pub sizes: Vec<(String, String)>,
    /// Variables with the path of a commit's command.
    pub commands: Vec<(String, String)>,
    pub steps: Vec<Step>,
    pub judged: Vec<Judged>,
}

/// A command of a line.
#[derive(Clone, Debug)]
pub struct Step {
    pub kind: Kind,
    pub label: String,
    pub command: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Runs after the directory `$DIR` was removed.
    Run,
    /// Runs with the directory `$DIR` as the last step left it.
    Then,
    /// As `Run`, on modelled devices: equal sources print equal output, so the output of an earlier run counts.
    Modelled,
}

/// A figure, and its limit if it has one.
#[derive(Clone, Debug)]
pub struct Judged {
    pub figure: String,
    pub limit: Option<(&'static str, String)>,
    pub note: String,
}

/// The operators of limits. `<=` precedes `<`, whose text it contains.
const OPERATORS: [&str; 5] = [" >= ", " <= ", " == ", " < ", " > "];

/// The variables that every command has.
const GIVEN: [&str; 7] = ["LAB", "BRAIDB", "BASE", "DIR", "OUT", "ROUND", "ROUNDS"];

/// Reads the table.
///
/// # Errors
///
/// The number of the first wrong line, and what is wrong there.
pub fn read(text: &str) -> Result<Vec<Line>, String> {
    let (mut lines, mut sets): (Vec<Line>, BTreeMap<String, String>) = (Vec::new(), BTreeMap::new());
    let mut numbered = text.lines().enumerate();
    while let Some((number, first)) = numbered.next() {
        let mut whole = first.to_owned();
        while let Some(kept) = whole.strip_suffix('\\') {
            let Some((_, next)) = numbered.next() else { break };
            whole = format!("{} {}", kept.trim_end(), next.trim_start());
        }
        let at = |what: String| format!("line {}: {what}", number + 1);
        let text = whole.trim();
        if text.is_empty() || whole.starts_with('#') {
            continue;
        }
        let (word, rest) = text.split_once(' ').map_or((text, ""), |(word, rest)| (word, rest.trim()));
        if word == "set" {
            let (name, value) =
                rest.split_once(' ').ok_or_else(|| at("set takes a name and a text".into()))?;
            sets.insert(name.to_owned(), value.to_owned());
        } else if !whole.starts_with(' ') {
            if rest.is_empty() || lines.iter().any(|line| line.name == word) {
                return Err(at(format!("{word} has no sentence, or is there twice")));
            }
            let (name, sentence) = (word.to_owned(), rest.to_owned());
            lines.push(Line { name, sentence, rounds: 1, ..Line::default() });
        } else {
            let (line, earlier) = lines.split_last_mut().ok_or_else(|| at("no line begins before".into()))?;
            add(line, earlier, word, rest).map_err(at)?;
        }
    }
    for line in &mut lines {
        finish(line, &sets).map_err(|what| format!("{}: {what}", line.name))?;
    }
    Ok(lines)
}

/// Adds a statement to a line.
fn add(line: &mut Line, earlier: &[Line], word: &str, rest: &str) -> Result<(), String> {
    let two = || rest.split_once(' ').ok_or_else(|| format!("{word} takes two words"));
    let kind = match word {
        "alone" => {
            line.is_alone = true;
            return Ok(());
        }
        "rounds" => {
            line.rounds = rest.parse().map_err(|_| format!("{rest} is no number"))?;
            return Ok(());
        }
        "like" => {
            let like = earlier.iter().find(|line| line.name == rest);
            let like = like.ok_or_else(|| format!("no line {rest} stands above"))?.clone();
            *line = Line { name: line.name.clone(), sentence: line.sentence.clone(), ..like };
            return Ok(());
        }
        "size" | "command" => {
            let (name, value) = two()?;
            let all = if word == "size" { &mut line.sizes } else { &mut line.commands };
            all.retain(|(other, _)| other != name);
            all.push((name.to_owned(), value.to_owned()));
            return Ok(());
        }
        "want" | "show" => {
            line.judged.push(judged(word == "want", rest)?);
            return Ok(());
        }
        "run" => Kind::Run,
        "then" => Kind::Then,
        "modelled" => Kind::Modelled,
        _ => return Err(format!("there is no statement {word}")),
    };
    let (label, command) = two()?;
    let step = Step { kind, label: label.to_owned(), command: command.to_owned() };
    match line.steps.iter_mut().find(|other| other.label == label) {
        Some(other) => *other = step,
        None => line.steps.push(step),
    }
    Ok(())
}

fn judged(is_wanted: bool, text: &str) -> Result<Judged, String> {
    let (text, note) = text.split_once(" ; ").unwrap_or((text, ""));
    let limit = OPERATORS.iter().find_map(|operator| Some((*operator, text.split_once(operator)?)));
    match limit {
        Some((operator, (figure, limit))) if is_wanted => {
            let limit = Some((operator.trim(), limit.to_owned()));
            Ok(Judged { figure: figure.to_owned(), limit, note: note.to_owned() })
        }
        None if !is_wanted => Ok(Judged { figure: text.to_owned(), limit: None, note: note.to_owned() }),
        _ => Err(format!("{text}: `want` has a limit, and `show` has none")),
    }
}

/// Puts the texts of `set` into commands, and checks that each name is known.
fn finish(line: &mut Line, sets: &BTreeMap<String, String>) -> Result<(), String> {
    if line.steps.is_empty() {
        return Err("it runs nothing".into());
    }
    for step in &mut line.steps {
        // The text of a `set` may name other texts, so the replacement is repeated. A text that names itself leaves an unknown variable.
        for _ in 0..8 {
            step.command = with_variables(&step.command, |name| sets.get(name).cloned());
        }
        let known = |name: &str| {
            let own = line.sizes.iter().chain(&line.commands).any(|(own, _)| own == name);
            own || GIVEN.contains(&name)
        };
        let mut unknown = None;
        with_variables(&step.command, |name| {
            unknown = unknown.take().or((!known(name)).then(|| name.to_owned()));
            None
        });
        if let Some(name) = unknown {
            return Err(format!("{} uses ${name}, which nothing sets", step.label));
        }
    }
    for Judged { figure, limit, .. } in &line.judged {
        for text in limit.iter().map(|(_, limit)| limit).chain([figure]) {
            figures::evaluate(text, &|name| line.may_tell(name).then_some(1.0))?;
        }
    }
    Ok(())
}

impl Line {
    /// Whether a figure of this name can be there: a size, or what some command tells.
    fn may_tell(&self, name: &str) -> bool {
        let label = name.split_once('.').map(|(label, _)| label);
        self.sizes.iter().any(|(size, _)| size == name)
            || match label {
                Some(label) => self.steps.iter().any(|step| step.label == label),
                None => name.starts_with(|c: char| c.is_ascii_lowercase()),
            }
    }

    /// Whether the line depends on the commit of `--base`.
    pub fn has_base(&self) -> bool {
        self.commands.iter().any(|(_, commit)| commit == "BASE") || self.uses("$BASE")
    }

    /// Whether a command contains this text.
    pub fn uses(&self, text: &str) -> bool {
        self.steps.iter().any(|step| step.command.contains(text))
    }
}

/// The text with each variable `$NAME` of capital letters replaced, if there is a value for it.
fn with_variables(text: &str, mut value: impl FnMut(&str) -> Option<String>) -> String {
    let mut parts = text.split('$');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_of_name = |c: char| c.is_ascii_uppercase() || c == '_';
        let (name, rest) = part.split_at(part.find(|c| !is_of_name(c)).unwrap_or(part.len()));
        match (!name.is_empty()).then(|| value(name)).flatten() {
            Some(value) => out.push_str(&value),
            None => {
                out.push('$');
                out.push_str(name);
            }
        }
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with every statement.
    const TOY: &str = "# a comment\n\
        \n\
        first  Says \\\n    what\n\
        \x20 alone\n\
        \x20 rounds 3\n\
        \x20 size NUM 10\n\
        \x20 command OLD BASE\n\
        \x20 run a $TOOL $NUM\n\
        \x20 then b $OLD $1 $(x) ${ROUNDS:-3}\n\
        \x20 want a.rate / b.rate >= 0.5 * NUM ; 7 before\n\
        \x20 show rate\n\
        second  Like it\n\
        \x20 like first\n\
        \x20 size NUM 20\n\
        \x20 modelled a $LAB\n\
        set TOOL $LAB $OTHER\n\
        set OTHER --json\n";

    #[test]
    fn every_statement_is_read() {
        let lines = read(TOY).unwrap();
        let first = &lines[0];
        assert_eq!((first.name.as_str(), first.sentence.as_str()), ("first", "Says what"));
        assert!(first.is_alone && first.rounds == 3 && first.has_base());
        assert_eq!(first.steps[0].command, "$LAB --json $NUM");
        assert_eq!(first.steps[1].command, "$OLD $1 $(x) ${ROUNDS:-3}");
        assert_eq!((first.steps[0].kind, first.steps[1].kind), (Kind::Run, Kind::Then));
        let Judged { figure, limit, note } = &first.judged[0];
        assert_eq!((figure.as_str(), note.as_str()), ("a.rate / b.rate", "7 before"));
        assert_eq!(limit, &Some((">=", "0.5 * NUM".to_owned())));
        assert!(first.judged[1].limit.is_none());
        let second = &lines[1];
        assert_eq!((second.sizes.len(), second.sizes[0].1.as_str()), (1, "20"));
        assert_eq!((second.steps[0].kind, second.steps[0].command.as_str()), (Kind::Modelled, "$LAB"));
        assert_eq!((second.steps.len(), second.judged.len(), second.rounds), (2, 2, 3));
    }

    #[test]
    fn a_wrong_table_is_refused_with_its_place() {
        for (text, expected) in [
            ("a\n", "line 1: a has no sentence"),
            ("a  x\n  run y z\na  x\n", "line 3: a has no sentence, or is there twice"),
            ("  alone\n", "line 1: no line begins before"),
            ("a  x\n  walk y z\n", "line 2: there is no statement walk"),
            ("a  x\n  rounds many\n", "line 2: many is no number"),
            ("a  x\n  like b\n", "line 2: no line b stands above"),
            ("a  x\n  want rate\n", "line 2: rate: `want` has a limit"),
            ("a  x\n  show rate > 1\n", "line 2: rate > 1: `want` has a limit"),
            ("a  x\n  alone\n", "a: it runs nothing"),
            ("a  x\n  run y $Z\nset Z $Z\n", "a: y uses $Z, which nothing sets"),
            ("a  x\n  run y z\n  want b.rate > 1\n", "a: nothing tells b.rate"),
            ("a  x\n  run y z\n  want NUM > 1\n", "a: nothing tells NUM"),
            ("a  x\n  run y z\n  want y.rate + > 1\n", "a: "),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    /// The real table is read, and its lines of everyday use keep their floors.
    #[test]
    fn the_table_is_in_order() {
        let lines = read(super::super::LINES).unwrap();
        let floors = |name: &str| -> Vec<String> {
            let line =
                lines.iter().find(|line| line.name == name).unwrap_or_else(|| panic!("{name} is gone"));
            let limit =
                |judged: &Judged| judged.limit.as_ref().map(|(sign, limit)| format!("{sign} {limit}"));
            line.judged.iter().filter_map(limit).collect()
        };
        assert_eq!(floors("steady"), ["<= 7", ">= 0.99", "<= 40", "<= 1.2"]);
        assert_eq!(floors("beside-gaps"), [">= 0.97"; 4]);
        assert_eq!(floors("threads"), [">= 0.8"; 4]);
        assert_eq!(floors("queues").len(), 12);
        assert_eq!(
            floors("reads-in-order").join(" "),
            ">= 1.2 >= 0.5 >= 1 >= 1 >= 1 >= 0.35 >= 1 >= 1 >= 0.35 >= 1 >= 1 >= 1"
        );
        assert_eq!(floors("reads-overwritten"), [">= 1.3", ">= 1.3", ">= 0.65", ">= 1", ">= 1"]);
        assert_eq!(floors("reads-20m"), [">= 1.15", ">= 1.15", ">= 0.5", ">= 0.8", ">= 0.8"]);
        assert_eq!(floors("reads-small-memory"), [">= 0.5", ">= 1.2"]);
        assert_eq!(floors("reads-4k"), [">= 0.5", ">= 2"]);
        assert_eq!(floors("reads-100m")[..2], [">= 0.6", ">= 0.3"]);
        assert_eq!(floors("braid-343")[..4], ["<= 0.34", "<= 0.37", ">= 4.5", ">= 2.5"]);
        assert_eq!(floors("braid-compact"), ["<= 0.75", "<= 1.01"]);
        let rounds = lines.iter().filter(|line| line.name.starts_with("braid-rounds-"));
        let most = rounds.flat_map(|line| line.sizes.iter().filter(|(name, _)| name == "MOST"));
        let most: Vec<&str> = most.map(|(_, most)| most.as_str()).collect();
        assert_eq!(most.join(" "), "1.0 0.99 0.95 1.0 0.99 0.95");
        for name in ["standard", "pairs-03c68b7", "without-base"] {
            let line = lines.iter().find(|line| line.name == name).unwrap();
            assert!(line.uses("--limit 'settled_operations_per_second>=0.9"), "{name} has no limit");
        }
    }

    #[test]
    fn the_tests_that_lines_run_are_there() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut count = 0;
        for line in read(super::super::LINES).unwrap() {
            for step in &line.steps {
                let (mut words, mut package) = (step.command.split_whitespace(), "");
                while let Some(word) = words.next() {
                    match word {
                        "-p" => package = words.next().unwrap(),
                        "--test" => {
                            let file = format!("{package}/tests/{}", words.next().unwrap());
                            let is_there = ["crates", "proof", "lab", "bindings/java"].iter().any(|roof| {
                                let path = root.join(roof).join(&file);
                                path.with_extension("rs").exists() || path.join("main.rs").exists()
                            });
                            assert!(is_there, "{}: there is no {file}", line.name);
                            count += 1;
                        }
                        _ => {}
                    }
                }
            }
        }
        assert!(count > 10, "{count}");
    }
}
