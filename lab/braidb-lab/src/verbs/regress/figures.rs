//! Figures: what commands print, and expressions over it.

use serde_json::Value;
use std::collections::BTreeMap;

/// The figures of a command by name.
pub type Figures = BTreeMap<String, f64>;

/// The figures in the output of a command: of lines of JSON, of one JSON value, and of lines `NAME NUMBER`.
pub fn told(output: &str) -> Figures {
    let mut all = Figures::new();
    if let Ok(value) = serde_json::from_str::<Value>(output)
        && output.trim().contains('\n')
    {
        flatten("", &value, &mut all);
        return all;
    }
    let (mut count, mut last) = (0, Figures::new());
    for line in output.lines() {
        if let Ok(value @ Value::Object(_)) = serde_json::from_str(line) {
            count += 1;
            last.clear();
            flatten("", &value, &mut last);
            flatten(&format!("{count}."), &value, &mut all);
        } else if let Some((name, number)) = line.split_once(' ')
            && let Ok(number) = number.trim().parse()
        {
            all.insert(name.to_owned(), number);
        }
    }
    all.extend(last);
    all
}

fn flatten(prefix: &str, value: &Value, into: &mut Figures) {
    let Value::Object(members) = value else { return };
    for (name, value) in members {
        let name = if name == "settled_operations_per_second" { "rate" } else { name };
        match value.as_f64() {
            Some(number) => _ = into.insert(format!("{prefix}{name}"), number),
            // On modelled devices `bench` tells all figures in an object of their own.
            None if name == "figures" => flatten(prefix, value, into),
            None => flatten(&format!("{prefix}{name}."), value, into),
        }
    }
}

/// The figure of a name: `LABEL.NAME`, or `NAME` if one command alone tells it.
pub fn find(name: &str, by_label: &BTreeMap<String, Figures>) -> Option<f64> {
    if let Some((label, rest)) = name.split_once('.')
        && let Some(figures) = by_label.get(label)
    {
        return figures.get(rest).copied();
    }
    let mut told = by_label.values().filter_map(|figures| figures.get(name));
    match (told.next(), told.next()) {
        (Some(figure), None) => Some(*figure),
        _ => None,
    }
}

/// The value of an expression of numbers, names, + - * / and parentheses, with spaces between.
pub fn evaluate(text: &str, find: &dyn Fn(&str) -> Option<f64>) -> Result<f64, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut reader = Reader { words: &words, find };
    let value = reader.sum()?;
    match reader.words {
        [] => Ok(value),
        [word, ..] => Err(format!("{text}: {word} is out of place")),
    }
}

struct Reader<'a> {
    words: &'a [&'a str],
    find: &'a dyn Fn(&str) -> Option<f64>,
}

impl Reader<'_> {
    /// Takes the next word if it is one of these.
    fn takes(&mut self, expected: &[&str]) -> Option<char> {
        let (first, rest) = self.words.split_first()?;
        let taken = expected.contains(first).then(|| first.chars().next())?;
        self.words = rest;
        taken
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        while let Some(sign) = self.takes(&["+", "-"]) {
            let other = self.product()?;
            value += if sign == '+' { other } else { -other };
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.one()?;
        while let Some(sign) = self.takes(&["*", "/"]) {
            let other = self.one()?;
            value = if sign == '*' { value * other } else { value / other };
        }
        Ok(value)
    }

    fn one(&mut self) -> Result<f64, String> {
        if self.takes(&["("]).is_some() {
            let value = self.sum()?;
            return self.takes(&[")"]).map(|_| value).ok_or_else(|| "a ) is missing".to_owned());
        }
        let (word, rest) = self.words.split_first().ok_or("a figure is missing")?;
        self.words = rest;
        let value = word.parse().ok().or_else(|| (self.find)(word));
        value.ok_or_else(|| format!("nothing tells {word}"))
    }
}

/// Whether a figure keeps to a limit. A figure that is no number keeps to none.
pub fn holds(figure: f64, operator: &str, limit: f64) -> bool {
    match operator {
        ">=" => figure >= limit,
        "<=" => figure <= limit,
        "==" => figure == limit,
        "<" => figure < limit,
        _ => figure > limit,
    }
}

/// A figure with the digits that mean something.
pub fn plain(figure: f64) -> String {
    match figure.abs() {
        large if large >= 1_000.0 || figure.fract() == 0.0 => format!("{figure:.0}"),
        large if large >= 0.01 => format!("{figure:.3}"),
        _ => format!("{figure:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_read_in_three_forms() {
        let lines = "running 1 test\nqueue 360.8\nspread 0.5..1.3\n{\"rate\":1,\"ns\":{\"max\":5},\"of\":[1]}\n{\"figures\":{\"rate\":2}}\n";
        let figures = told(lines);
        let expected = [("1.ns.max", 5.0), ("1.rate", 1.0), ("2.rate", 2.0), ("queue", 360.8), ("rate", 2.0)];
        assert_eq!(figures, expected.map(|(name, figure)| (name.to_owned(), figure)).into());
        let whole = told("{\n  \"refined\": {\n    \"mixed\": 7.5\n  }\n}\n");
        assert_eq!(whole, [("refined.mixed".to_owned(), 7.5)].into());
    }

    #[test]
    fn names_are_found_by_label_or_alone() {
        let of = |names: &[(&str, f64)]| -> Figures {
            names.iter().map(|(name, figure)| ((*name).to_owned(), *figure)).collect()
        };
        let all = [
            ("a".to_owned(), of(&[("rate", 1.0), ("2.rate", 3.0)])),
            ("b".to_owned(), of(&[("rate", 2.0), ("own", 4.0)])),
        ];
        let all = all.into();
        let found =
            ["a.rate", "b.rate", "a.2.rate", "own", "rate", "a.own", "c.rate"].map(|name| find(name, &all));
        assert_eq!(found, [Some(1.0), Some(2.0), Some(3.0), Some(4.0), None, None, None]);
    }

    #[test]
    fn expressions_follow_the_rules_of_arithmetic() {
        let value = |text: &str| evaluate(text, &|name| (name == "x-y.z").then_some(8.0));
        for (text, expected) in [
            ("1 + 2 * 3", 7.0),
            ("( 1 + 2 ) * 3", 9.0),
            ("x-y.z / 2 - 1", 3.0),
            ("8 - 4 - 2", 2.0),
            ("-0.5", -0.5),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
        for wrong in ["", "1 +", "( 1", "1 2", "x", ") 1"] {
            assert!(value(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn limits_hold_at_their_edge_and_never_without_a_number() {
        let at_edge = [">=", "<=", "==", "<", ">"].map(|sign| holds(2.0, sign, 2.0));
        assert_eq!(at_edge, [true, true, true, false, false]);
        assert!(
            holds(1.9, "<", 2.0) && holds(2.1, ">", 2.0) && !holds(1.9, ">=", 2.0) && !holds(2.1, "<=", 2.0)
        );
        assert!([">=", "<=", "==", "<", ">"].iter().all(|sign| !holds(f64::NAN, sign, 2.0)));
        assert_eq!([360.8, 12_345.6, 3.0, 0.001_234].map(plain), ["360.800", "12346", "3", "1.23e-3"]);
    }
}
