//! Which calls of the simulator go wrong, and how.

use std::str::FromStr;

/// How a call goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    TooManyRequests,
    ServerError,
    Timeout,
    Malformed,
    Truncated,
}

const NAMES: [(&str, Fault); 5] = [
    ("429", Fault::TooManyRequests),
    ("500", Fault::ServerError),
    ("timeout", Fault::Timeout),
    ("malformed", Fault::Malformed),
    ("truncated", Fault::Truncated),
];

/// The share of calls that goes wrong in each way; `429=0.1,500=0.1,timeout=0.05,malformed=0.05,truncated=0.02`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FaultRates(Vec<(Fault, f64)>);

/// What is wrong with a text of fault rates.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultRatesError {
    /// Not of the form `fault=share`.
    #[error("{0:?} is not of the form fault=share, e.g. 429=0.1")]
    Form(String),
    /// No such fault.
    #[error("unknown fault {0:?}; known: 429, 500, timeout, malformed, truncated")]
    Unknown(String),
    /// Not a number of 0-1.
    #[error("the share of fault {0:?} must be a number of 0-1")]
    Share(String),
    /// More than all calls.
    #[error("the shares of all faults add up to more than 1")]
    Sum,
}

impl FromStr for FaultRates {
    type Err = FaultRatesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut rates: Vec<(Fault, f64)> = Vec::new();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let (name, share) = part
                .split_once('=')
                .ok_or_else(|| FaultRatesError::Form(part.to_owned()))?;
            let name = name.trim();
            let (_, fault) = NAMES
                .iter()
                .find(|(known, _)| *known == name)
                .ok_or_else(|| FaultRatesError::Unknown(name.to_owned()))?;
            let share = share
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|share| (0.0..=1.0).contains(share))
                .ok_or_else(|| FaultRatesError::Share(name.to_owned()))?;
            rates.retain(|(known, _)| known != fault);
            rates.push((*fault, share));
        }
        // Sums of decimal fractions miss 1 by a hair.
        if rates.iter().map(|(_, share)| share).sum::<f64>() > 1.0 + 1e-9 {
            return Err(FaultRatesError::Sum);
        }
        Ok(Self(rates))
    }
}

impl FaultRates {
    /// The fault of call number `call`, if it has one; the same for the same seed and number.
    pub(super) fn draw(&self, seed: u64, call: u64) -> Option<Fault> {
        // Seeds that differ by one bit would give neighbouring first draws; the odd factor spreads them.
        let mixed = seed ^ call.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut drawn = fastrand::Rng::with_seed(mixed).f64();
        for (fault, share) in &self.0 {
            if drawn < *share {
                return Some(*fault);
            }
            drawn -= share;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_drawn_about_as_often_as_their_share_says_and_always_alike() {
        let rates: FaultRates = "429=0.1, 500=0.2, timeout=0".parse().unwrap();
        let draws: Vec<_> = (0..10_000).map(|call| rates.draw(7, call)).collect();
        let count = |fault| draws.iter().filter(|drawn| **drawn == fault).count();
        assert!((800..1_200).contains(&count(Some(Fault::TooManyRequests))));
        assert!((1_800..2_200).contains(&count(Some(Fault::ServerError))));
        assert_eq!(count(Some(Fault::Timeout)), 0);
        let again: Vec<_> = (0..10_000).map(|call| rates.draw(7, call)).collect();
        assert_eq!(draws, again);
        let other: Vec<_> = (0..10_000).map(|call| rates.draw(8, call)).collect();
        assert_ne!(draws, other);
    }

    #[test]
    fn a_share_of_one_is_every_call_and_no_rates_are_no_faults() {
        let all: FaultRates = "malformed=1".parse().unwrap();
        assert!((0..100).all(|call| all.draw(0, call) == Some(Fault::Malformed)));
        assert!((0..100).all(|call| FaultRates::default().draw(0, call).is_none()));
    }

    #[test]
    fn wrong_rates_say_what_is_wrong() {
        let table = [
            ("429", FaultRatesError::Form("429".to_owned())),
            ("418=0.1", FaultRatesError::Unknown("418".to_owned())),
            ("500=2", FaultRatesError::Share("500".to_owned())),
            ("500=NaN", FaultRatesError::Share("500".to_owned())),
            ("500=0.6,429=0.6", FaultRatesError::Sum),
        ];
        for (text, error) in table {
            assert_eq!(text.parse::<FaultRates>(), Err(error), "{text}");
        }
        assert!("429=0.1,500=0.2,timeout=0.7".parse::<FaultRates>().is_ok());
    }
}
