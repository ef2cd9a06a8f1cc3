//! Spending of judges today and this month, with their limits. Spending is from the store, limits from the files.

use std::collections::BTreeMap;

use crate::api::ApiState;
use crate::store::{JudgeSpent, StoreError, known_usd};
use crate::wire::{Cap, Spent};

/// Spending limits, USD. `None`: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SpendingCap {
    /// Per UTC day.
    pub daily_usd: Option<f64>,
    /// Per UTC month.
    pub monthly_usd: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct SpendingCaps {
    /// Of all judges together.
    pub total: Option<SpendingCap>,
    /// By provider entry.
    pub entries: BTreeMap<String, SpendingCap>,
}

#[derive(Debug)]
pub(crate) struct Spending {
    caps: SpendingCaps,
    spent: Vec<JudgeSpent>,
}

impl Spending {
    pub(crate) async fn load(state: &ApiState) -> Result<Self, StoreError> {
        let today = state.clock.now().date_naive();
        Ok(Self {
            caps: state.caps.clone(),
            spent: state.store.budgets().spent(today).await?,
        })
    }

    pub(crate) fn of_judge(&self, name: &str) -> Spent {
        self.sum(|judge| judge == name)
    }

    pub(crate) fn of_all(&self) -> Spent {
        self.sum(|_| true)
    }

    pub(crate) fn cap_of(&self, judge: &str) -> Option<Cap> {
        let entry = entry_of(judge);
        let cap = self.caps.entries.get(entry)?;
        let spent = self.sum(|judge| entry_of(judge) == entry);
        Some(cap_view(Some(entry.to_owned()), *cap, spent))
    }

    pub(crate) fn cap_of_all(&self) -> Option<Cap> {
        let cap = self.caps.total?;
        Some(cap_view(None, cap, self.of_all()))
    }

    fn sum(&self, takes: impl Fn(&str) -> bool) -> Spent {
        let (mut today, mut month) = ((0.0, 0_i64), (0.0, 0_i64));
        for judge in self.spent.iter().filter(|spent| takes(&spent.judge)) {
            today.0 += judge.today_usd;
            today.1 = today.1.saturating_add(judge.today_unpriced_calls);
            month.0 += judge.month_usd;
            month.1 = month.1.saturating_add(judge.unpriced_calls);
        }
        Spent {
            today_usd: known_usd(today.0, today.1),
            month_usd: known_usd(month.0, month.1),
            today_unpriced_calls: today.1,
            unpriced_calls: month.1,
        }
    }
}

fn entry_of(judge: &str) -> &str {
    judge.split_once(':').map_or(judge, |(entry, _)| entry)
}

fn cap_view(entry: Option<String>, cap: SpendingCap, spent: Spent) -> Cap {
    Cap {
        entry,
        daily_cap_usd: cap.daily_usd,
        monthly_cap_usd: cap.monthly_usd,
        spent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpriced_day_is_unknown_regardless_of_month() {
        let spent = |today_usd, today_unpriced_calls, unpriced_calls| JudgeSpent {
            judge: "a".to_owned(),
            today_usd,
            month_usd: 2.5,
            today_unpriced_calls,
            unpriced_calls,
        };
        let today = |spent: JudgeSpent| {
            let spending = Spending {
                caps: SpendingCaps::default(),
                spent: vec![spent],
            };
            let view = spending.of_judge("a");
            assert_eq!(view.month_usd, Some(2.5));
            (view.today_usd, view.today_unpriced_calls)
        };
        assert_eq!(today(spent(0.0, 3, 3)), (None, 3));
        assert_eq!(today(spent(0.0, 0, 3)), (Some(0.0), 0));
        assert_eq!(today(spent(0.5, 3, 3)), (Some(0.5), 3));
    }
}
