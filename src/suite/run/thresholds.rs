//! Gates as flags name them and as `run.json` keeps them: a run that goes on is held to what it began with.

use std::borrow::Cow;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::report::Simulated;

/// What is asked of a run; without any of the first three: every scored item passed. What nobody asked for is left out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Gates {
    /// `--min-pass-rate`, 0-1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_pass_rate: Option<f64>,
    /// `--min-mean`, 0-1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_mean: Option<f64>,
    /// `--max-errors`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_errors: Option<u64>,
    /// `--baseline`, as it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<PathBuf>,
    /// `--max-regression`, 0-1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_regression: Option<f64>,
    /// `--allow-simulated`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_simulated: bool,
}

impl Gates {
    /// These gates, and those of `kept` that none of these takes the place of.
    pub fn over(self, kept: &Self) -> Self {
        Self {
            min_pass_rate: self.min_pass_rate.or(kept.min_pass_rate),
            min_mean: self.min_mean.or(kept.min_mean),
            max_errors: self.max_errors.or(kept.max_errors),
            baseline: self.baseline.or_else(|| kept.baseline.clone()),
            max_regression: self.max_regression.or(kept.max_regression),
            allow_simulated: self.allow_simulated || kept.allow_simulated,
        }
    }

    pub(super) fn most_errors(&self) -> u64 {
        self.max_errors.unwrap_or(0)
    }

    pub fn simulated(&self) -> Simulated {
        match self.allow_simulated {
            true => Simulated::Allowed,
            false => Simulated::Refused,
        }
    }

    /// The flags that ask for them, each with its value.
    pub fn flags(&self) -> Vec<(&'static str, String)> {
        let number = |flag, value: Option<f64>| value.map(|value| (flag, value.to_string()));
        let flags = [
            number("--min-pass-rate", self.min_pass_rate),
            number("--min-mean", self.min_mean),
            self.max_errors.map(|n| ("--max-errors", n.to_string())),
            self.baseline
                .as_ref()
                .map(|dir| ("--baseline", dir.display().to_string())),
            number("--max-regression", self.max_regression),
            self.allow_simulated
                .then(|| ("--allow-simulated", String::new())),
        ];
        flags.into_iter().flatten().collect()
    }

    /// The flags as one writes them, behind a command; empty without any.
    pub fn command_line(&self) -> String {
        let one = |(flag, value): (&str, String)| match value.as_str() {
            "" => format!(" {flag}"),
            value => format!(" {flag} {}", word(value)),
        };
        self.flags().into_iter().map(one).collect()
    }
}

/// A text as one word of a shell's command; as it is where no shell could take it.
pub fn word(text: &str) -> Cow<'_, str> {
    shlex::try_quote(text).unwrap_or(Cow::Borrowed(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_takes_the_place_of_the_kept_one_of_its_name_alone() {
        let kept = Gates {
            min_mean: Some(0.9),
            max_errors: Some(3),
            allow_simulated: true,
            ..Gates::default()
        };
        let given = Gates {
            max_errors: Some(0),
            min_pass_rate: Some(0.5),
            ..Gates::default()
        };
        let held = given.over(&kept);
        assert_eq!(
            held.command_line(),
            " --min-pass-rate 0.5 --min-mean 0.9 --max-errors 0 --allow-simulated"
        );
        assert_eq!((held.min_mean, held.most_errors()), (Some(0.9), 0));
        assert_eq!(held.simulated(), Simulated::Allowed);
        let text = serde_json::to_string(&held).unwrap();
        assert_eq!(serde_json::from_str::<Gates>(&text).unwrap(), held);
        assert_eq!(
            serde_json::from_str::<Gates>("{}").unwrap(),
            Gates::default()
        );
    }

    #[test]
    fn a_path_is_one_word_whatever_is_in_it() {
        let asked = Gates {
            baseline: Some(PathBuf::from("last week's/run")),
            ..Gates::default()
        };
        assert_eq!(asked.command_line(), " --baseline \"last week's/run\"");
        assert_eq!(word("reports/run-1"), "reports/run-1");
    }
}
