//! The order of the runs in a round.
//!
//! Runs whose ratio is taken follow each other, because the machine changes with time. Which of two comes first changes, so that no
//! side profits from its place; and so does the pair that a round begins with. With one line, four rounds in a row are
//! `A B A'' A'`, `A'' A' A B`, `B A A' A''`, `A' A'' B A`, where `A'` and `A''` are the runs of A beside A: each of the four is
//! first once.

/// One run of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Side A of a line that is judged.
    A(usize),
    /// Side B of a line that is judged.
    B(usize),
    /// The numerator of A beside A.
    SameLeft,
    /// The denominator of A beside A.
    SameRight,
}

impl Turn {
    /// What rows call the place: `A`, `B`, `A'` or `A''`.
    pub fn name(self) -> &'static str {
        match self {
            Turn::A(_) => "A",
            Turn::B(_) => "B",
            Turn::SameLeft => "A'",
            Turn::SameRight => "A''",
        }
    }

    /// Whether side B runs.
    pub fn is_b(self) -> bool {
        matches!(self, Turn::B(_))
    }
}

/// The runs of a round, in order: a pair for each line, and one pair of A beside A that all lines share.
pub fn round(number: usize, lines: usize) -> Vec<Turn> {
    let mut pairs: Vec<[Turn; 2]> = (0..lines).map(|line| [Turn::A(line), Turn::B(line)]).collect();
    pairs.push([Turn::SameLeft, Turn::SameRight]);
    let lap = number / pairs.len();
    for (place, pair) in pairs.iter_mut().enumerate() {
        if (lap + place) % 2 == 1 {
            pair.reverse();
        }
    }
    let first = number % pairs.len();
    pairs.rotate_left(first);
    pairs.concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn each_of_four_runs_is_first_once_in_four_rounds() {
        let names: Vec<String> = (0..4)
            .map(|number| round(number, 1).iter().map(|turn| turn.name()).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(names, ["A B A'' A'", "A'' A' A B", "B A A' A''", "A' A'' B A"]);
    }

    #[test]
    fn every_run_happens_once_beside_its_partner() {
        for lines in 1..6 {
            for number in 0..14 {
                let turns = round(number, lines);
                assert_eq!(turns.len(), 2 * lines + 2);
                let place =
                    |turn: Turn| turns.iter().position(|other| *other == turn).expect("each has its turn");
                for line in 0..lines {
                    assert_eq!(place(Turn::A(line)).abs_diff(place(Turn::B(line))), 1);
                }
                assert_eq!(place(Turn::SameLeft).abs_diff(place(Turn::SameRight)), 1);
            }
        }
    }

    #[test]
    fn no_side_always_comes_first() {
        for lines in 1..6 {
            // As many rounds as there are orders.
            let rounds = 2 * (lines + 1);
            let mut firsts: BTreeMap<&str, usize> = BTreeMap::new();
            for number in 0..rounds {
                let turns = round(number, lines);
                *firsts.entry(turns[0].name()).or_default() += 1;
                for line in 0..lines {
                    let is_a_first = turns.iter().position(|turn| *turn == Turn::A(line))
                        < turns.iter().position(|turn| *turn == Turn::B(line));
                    *firsts.entry(["later", "before"][usize::from(is_a_first)]).or_default() += 1;
                }
            }
            assert_eq!(firsts["before"], firsts["later"], "{lines} lines: {firsts:?}");
            assert_eq!(firsts["A"], firsts["B"], "{lines} lines: {firsts:?}");
            assert_eq!(firsts["A'"], firsts["A''"], "{lines} lines: {firsts:?}");
        }
    }
}
