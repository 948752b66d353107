//! The order of the runs in a round.
//!
//! The two runs of a pair follow each other, because the machine changes with time. The order within a pair alternates, so that no side
//! profits from its place. The pair that begins a round changes too. In the following example `A'` and `A''` are the runs of A beside A.
//! With one line, four rounds in a row are `A B A'' A'`, `A'' A' A B`, `B A A' A''`, `A' A'' B A`: each of the four runs is first once.

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
    /// The name of the place in rows: `A`, `B`, `A'` or `A''`.
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
    // The order within a pair changes every two rounds, so each pair runs in both orders within 7 rounds. The first run of a round takes
    // about 2% more processor time than later ones, so both sides get this place too.
    for (place, pair) in pairs.iter_mut().enumerate() {
        if (number / 2 + place) % 2 == 1 {
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
        let is_before = |turns: &[Turn], one: Turn, other: Turn| {
            turns.iter().position(|turn| *turn == one) < turns.iter().position(|turn| *turn == other)
        };
        for lines in 1..6 {
            // In the 7 rounds of a measurement each side of a pair is first 3 or 4 times.
            let seven: Vec<Vec<Turn>> = (0..7).map(|number| round(number, lines)).collect();
            let firsts = |one, other| seven.iter().filter(|turns| is_before(turns, one, other)).count();
            for line in 0..lines {
                assert!(
                    (3..=4).contains(&firsts(Turn::A(line), Turn::B(line))),
                    "{lines} lines: line {line}"
                );
            }
            assert!((3..=4).contains(&firsts(Turn::SameLeft, Turn::SameRight)), "{lines} lines");
            // Both sides of the pairs come at the beginning of a round.
            let is_left = |turns: &&Vec<Turn>| matches!(turns[0], Turn::A(_) | Turn::SameLeft);
            let begins = seven.iter().filter(is_left).count();
            assert!((2..=5).contains(&begins), "{lines} lines: {begins} of 7");
        }
        // With five lines in a block, both sides begin a round about equally often.
        let begins =
            (0..7).filter(|&number| matches!(round(number, 5)[0], Turn::A(_) | Turn::SameLeft)).count();
        assert!((3..=4).contains(&begins), "{begins} of 7");
    }
}
