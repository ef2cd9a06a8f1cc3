//! What may be spent in a day and a month.

/// The most that may be spent, USD; `None`: no such cap.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cap {
    /// In a day of UTC.
    pub daily_usd: Option<f64>,
    /// In a month of UTC.
    pub monthly_usd: Option<f64>,
}

impl Cap {
    /// Reads figures in which 0 stands for none.
    pub fn new(daily_usd: f64, monthly_usd: f64) -> Self {
        let given = |usd: f64| Some(usd).filter(|usd| *usd > 0.0);
        Self {
            daily_usd: given(daily_usd),
            monthly_usd: given(monthly_usd),
        }
    }

    /// Whether it caps anything.
    pub fn is_set(&self) -> bool {
        self.daily_usd.is_some() || self.monthly_usd.is_some()
    }

    /// The key of the settings that sets it.
    pub(super) fn key(&self) -> &'static str {
        match self.daily_usd {
            Some(_) => "daily_cap_usd",
            None => "monthly_cap_usd",
        }
    }
}
