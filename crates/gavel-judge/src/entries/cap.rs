/// Cost caps in USD. `None` means no cap.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cap {
    /// Per UTC day.
    pub daily_usd: Option<f64>,
    /// Per UTC month.
    pub monthly_usd: Option<f64>,
}

impl Cap {
    /// 0 means no cap.
    pub fn new(daily_usd: f64, monthly_usd: f64) -> Self {
        let given = |usd: f64| Some(usd).filter(|usd| *usd > 0.0);
        Self {
            daily_usd: given(daily_usd),
            monthly_usd: given(monthly_usd),
        }
    }

    pub fn is_set(&self) -> bool {
        self.daily_usd.is_some() || self.monthly_usd.is_some()
    }

    pub(super) fn key(&self) -> &'static str {
        match self.daily_usd {
            Some(_) => "daily_cap_usd",
            None => "monthly_cap_usd",
        }
    }
}
