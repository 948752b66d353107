//! Limits in the form of the command line: `FIGURE>=0.97`, `FIGURE<=1.1`, or `WORKLOAD/FIGURE>=0.97` for one of several workloads.

use braidb_bench::results::Limit;

/// A limit on the ratio of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Limited {
    /// `None` if the limit applies to each workload of the run.
    pub workload: Option<String>,
    pub figure: String,
    pub limit: Limit,
}

impl Limited {
    /// Whether the limit applies to a workload.
    pub fn is_meant(&self, workload: &str) -> bool {
        self.workload.as_deref().is_none_or(|name| name == workload)
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
        if figure.is_empty() || workload == Some("") || !number.is_finite() || number < 0.0 {
            return Err(wrong());
        }
        let limit = if is_least { Limit::AtLeast(number) } else { Limit::AtMost(number) };
        Ok(Limited { workload: workload.map(str::to_owned), figure: figure.to_owned(), limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let read = |text: &str| text.parse::<Limited>();
        let rate = Limited { workload: None, figure: "rate".to_owned(), limit: Limit::AtLeast(0.97) };
        assert_eq!(read("rate>=0.97"), Ok(rate.clone()));
        assert_eq!(read("rate >= 0.97"), Ok(rate.clone()));
        let of_gets = Limited { workload: Some("gets".to_owned()), limit: Limit::AtMost(1.1), ..rate };
        assert_eq!(read("gets/rate<=1.1"), Ok(of_gets.clone()));
        assert!(of_gets.is_meant("gets") && !of_gets.is_meant("scans"));
        for wrong in
            ["rate", "rate>0.97", "rate>=much", ">=1", "/rate>=1", "rate>=nan", "rate>=-1", "a>=1<=2"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
