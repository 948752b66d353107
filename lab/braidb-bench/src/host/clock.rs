//! Time in nanoseconds. A benchmark measures operations that take less than one tick of the engine's clock.
#![allow(clippy::disallowed_methods, reason = "see the module `host`")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Measures time from its creation on.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    pub fn seconds(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }

    /// The time since the last lap or the start, and the start of the next lap. So a caller that times every operation reads the clock once
    /// for each.
    pub fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now - std::mem::replace(&mut self.0, now)
    }
}

/// Puts the calling thread to sleep.
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// The current date, UTC: `2026-11-23`.
pub fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    date_of(seconds / 86_400)
}

/// The date of the day number `days` since the first of January 1970. Years begin in March here, so that a leap day is the last day of its
/// year.
fn date_of(days: u64) -> String {
    // 400 years have 146,097 days. The first 400 years begin on the first of March of the year 0, 719,468 days before 1970.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, five months have 153 days.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::date_of;

    #[test]
    fn days_have_their_dates() {
        for (days, date) in
            [(0, "1970-01-01"), (11_016, "2000-02-29"), (11_017, "2000-03-01"), (20_780, "2026-11-23")]
        {
            assert_eq!(date_of(days), date);
        }
        assert_eq!((date_of(47_540), date_of(47_541)), ("2100-02-28".to_owned(), "2100-03-01".to_owned()));
    }
}
