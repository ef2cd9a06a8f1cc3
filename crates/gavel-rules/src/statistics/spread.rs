pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the median; for an even number of values, the mean of the middle two. `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}

/// Returns the value below which a share of `sorted` is, interpolated between neighbours (type 7 in R, the default in NumPy). `None`
/// without values.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = (place.floor() as usize).min(last);
    let (low, high) = (sorted.get(below)?, sorted.get((below + 1).min(last))?);
    Some(low + (high - low) * (place - below as f64))
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub n: usize,
    pub mean: f64,
    pub median: f64,
    /// Sample standard deviation (n - 1); `None` for one value.
    pub sd: Option<f64>,
    pub range: f64,
}

impl Spread {
    /// Returns `None` without values.
    pub fn from_values(values: &[f64]) -> Option<Self> {
        let n = values.len();
        let mean = mean(values)?;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self {
            n,
            mean,
            median: median(values)?,
            sd: (n > 1).then(|| (squares / (n as f64 - 1.0)).sqrt()),
            range: most - least,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_matches_numpy() {
        // numpy: mean, median, std(ddof=1), ptp of the same values.
        let values = [62.0, 71.0, 68.0, 90.0, 55.0, 71.0];
        let spread = Spread::from_values(&values).unwrap();
        assert_eq!((spread.n, spread.median, spread.range), (6, 69.5, 35.0));
        assert!((spread.mean - 69.5).abs() < 1e-12);
        assert!(
            (spread.sd.unwrap() - 11.777_096_416_349_83).abs() < 1e-9,
            "{spread:?}"
        );
    }

    #[test]
    fn quantile_interpolates_between_neighbours() {
        let sorted = [1.0, 2.0, 4.0, 8.0];
        for (share, expected) in [(0.0, 1.0), (0.25, 1.75), (0.5, 3.0), (0.9, 6.8), (1.0, 8.0)] {
            let found = quantile(&sorted, share).unwrap();
            assert!((found - expected).abs() < 1e-12, "{share}: {found}");
        }
    }

    #[test]
    fn undefined_statistics_are_none() {
        assert_eq!(
            (mean(&[]), median(&[]), quantile(&[], 0.5)),
            (None, None, None)
        );
        assert_eq!(Spread::from_values(&[]), None);
        let one = Spread::from_values(&[7.0]).unwrap();
        assert_eq!((one.sd, one.range, one.median), (None, 0.0, 7.0));
    }
}
