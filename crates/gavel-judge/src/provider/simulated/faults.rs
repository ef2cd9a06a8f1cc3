//! Errors that the simulator injects.

use std::str::FromStr;

const FAULTS: [&str; 5] = ["429", "500", "timeout", "malformed", "truncated"];

/// Share of the calls with each error: `429=0.1,500=0.1,timeout=0.05,malformed=0.05,truncated=0.02`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FaultRates(Vec<(&'static str, f64)>);

impl FromStr for FaultRates {
    /// The error message.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut rates: Vec<(&str, f64)> = Vec::new();
        let parts = text.split(',').map(str::trim);
        for part in parts.filter(|part| !part.is_empty()) {
            let Some((name, share)) = part.split_once('=') else {
                return Err(format!(
                    "{part:?} is not of the form fault=share, e.g. 429=0.1"
                ));
            };
            let name = name.trim();
            let Some(fault) = FAULTS.into_iter().find(|known| *known == name) else {
                let known = FAULTS.join(", ");
                return Err(format!("unknown fault {name:?}; known: {known}"));
            };
            let share: f64 = share.trim().parse().unwrap_or(f64::NAN);
            if !(0.0..=1.0).contains(&share) {
                return Err(format!(
                    "the share of fault {name:?} must be a number of 0-1"
                ));
            }
            rates.retain(|(known, _)| *known != fault);
            rates.push((fault, share));
        }
        // Sums of decimal fractions may be slightly above 1.
        if rates.iter().map(|(_, share)| share).sum::<f64>() > 1.0 + 1e-9 {
            return Err("the shares of all faults add up to more than 1".to_owned());
        }
        Ok(Self(rates))
    }
}

impl FaultRates {
    /// Returns the error of call number `call`, which depends only on the seed and the number.
    pub(super) fn sample(&self, seed: u64, call: u64) -> Option<&'static str> {
        // The odd factor spreads the first samples of similar seeds.
        let mixed = seed ^ call.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut left = fastrand::Rng::with_seed(mixed).f64();
        for (fault, share) in &self.0 {
            if left < *share {
                return Some(*fault);
            }
            left -= share;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_match_shares_and_are_deterministic() {
        let rates: FaultRates = "429=0.1, 500=0.2, timeout=0".parse().unwrap();
        let samples: Vec<_> = (0..10_000).map(|call| rates.sample(7, call)).collect();
        let count = |fault| samples.iter().filter(|left| **left == fault).count();
        assert!((800..1_200).contains(&count(Some("429"))));
        assert!((1_800..2_200).contains(&count(Some("500"))));
        assert_eq!(count(Some("timeout")), 0);
        let again: Vec<_> = (0..10_000).map(|call| rates.sample(7, call)).collect();
        assert_eq!(samples, again);
        let other: Vec<_> = (0..10_000).map(|call| rates.sample(8, call)).collect();
        assert_ne!(samples, other);
    }

    #[test]
    fn share_of_one_hits_every_call() {
        let all: FaultRates = "malformed=1".parse().unwrap();
        assert!((0..100).all(|call| all.sample(0, call) == Some("malformed")));
        assert!((0..100).all(|call| FaultRates::default().sample(0, call).is_none()));
    }

    #[test]
    fn rejects_invalid_rates() {
        let table = [
            ("429", "is not of the form fault=share"),
            ("418=0.1", "unknown fault \"418\"; known: 429, 500,"),
            ("500=2", "the share of fault \"500\" must be"),
            ("500=NaN", "the share of fault \"500\" must be"),
            ("500=0.6,429=0.6", "add up to more than 1"),
        ];
        for (text, expected) in table {
            let error = text.parse::<FaultRates>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!("429=0.1,500=0.2,timeout=0.7".parse::<FaultRates>().is_ok());
    }
}
