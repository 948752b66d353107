//! Limits in the form of the command line: `FIGURE>=0.97`, `FIGURE<=1.1`, or `WORKLOAD/FIGURE>=0.97` for one of several workloads.
//! `WORKLOAD:2/FIGURE>=0.97` is meant for the second run of a workload that runs more than once.

use braidb_bench::results::Limit;

/// A limit on the ratio of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Limited {
    /// `None` if the limit applies to each workload of the run.
    pub workload: Option<String>,
    /// Which run of the workload, from 1. `None` if the limit applies to each.
    pub place: Option<usize>,
    pub figure: String,
    pub limit: Limit,
}

impl Limited {
    /// Whether the limit applies to a run of a workload, the `place`-th of it.
    pub fn is_meant(&self, workload: &str, place: usize) -> bool {
        self.workload.as_deref().is_none_or(|name| name == workload)
            && self.place.is_none_or(|own| own == place)
    }
}

impl std::str::FromStr for Limited {
    type Err = String;

    fn from_str(text: &str) -> Result<Limited, String> {
        let wrong = || {
            format!("{text:?} is no limit; write FIGURE>=NUMBER, FIGURE<=NUMBER or WORKLOAD/FIGURE>=NUMBER")
        };
        let (is_least, (place, number)) = match (text.split_once(">="), text.split_once("<=")) {
            (Some(parts), None) => (true, parts),
            (None, Some(parts)) => (false, parts),
            _ => return Err(wrong()),
        };
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        let (workload, figure) = match place.trim().split_once('/') {
            Some((workload, figure)) => (Some(workload), figure),
            None => (None, place.trim()),
        };
        let (workload, place) = match workload.and_then(|workload| workload.split_once(':')) {
            Some((workload, place)) => (Some(workload), Some(place.parse().map_err(|_| wrong())?)),
            None => (workload, None),
        };
        if figure.is_empty()
            || workload == Some("")
            || place == Some(0)
            || !number.is_finite()
            || number < 0.0
        {
            return Err(wrong());
        }
        let limit = if is_least { Limit::AtLeast(number) } else { Limit::AtMost(number) };
        Ok(Limited { workload: workload.map(str::to_owned), place, figure: figure.to_owned(), limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let read = |text: &str| text.parse::<Limited>();
        let rate =
            Limited { workload: None, place: None, figure: "rate".to_owned(), limit: Limit::AtLeast(0.97) };
        assert_eq!(read("rate>=0.97"), Ok(rate.clone()));
        assert_eq!(read("rate >= 0.97"), Ok(rate.clone()));
        let of_gets = Limited { workload: Some("gets".to_owned()), limit: Limit::AtMost(1.1), ..rate };
        assert_eq!(read("gets/rate<=1.1"), Ok(of_gets.clone()));
        assert!(of_gets.is_meant("gets", 1) && of_gets.is_meant("gets", 2) && !of_gets.is_meant("scans", 1));
        let second = Limited { place: Some(2), ..of_gets };
        assert_eq!(read("gets:2/rate<=1.1"), Ok(second.clone()));
        assert!(second.is_meant("gets", 2) && !second.is_meant("gets", 1));
        for wrong in [
            "rate",
            "rate>0.97",
            "rate>=much",
            ">=1",
            "/rate>=1",
            "rate>=nan",
            "rate>=-1",
            "a>=1<=2",
            "a:0/rate>=1",
            "a:b/rate>=1",
            ":1/rate>=1",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
