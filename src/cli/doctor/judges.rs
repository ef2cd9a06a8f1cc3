//! Calls each configured judge for one token.

use super::Check;
use crate::app::{App, Providers};
use crate::job::FailureClass;

/// Checks the judges of the criteria and their fallbacks, which must be configured, and all other configured entries. The simulator's entry
/// always exists and needs no key, so it is only checked if the criteria name it.
pub(super) async fn check(
    providers: &Providers,
    wanted: &[String],
    calls: bool,
    slots: usize,
) -> Vec<Check> {
    let mut names = wanted.to_vec();
    for fallback in wanted.iter().filter_map(|judge| providers.fallback(judge)) {
        if !names.contains(&fallback) {
            names.push(fallback);
        }
    }
    let others = providers.names().into_iter().filter(|name| {
        let real = providers.spec(name).is_ok_and(|spec| !spec.simulated());
        // Skips further models of an entry, because they share its address and key.
        !names.contains(name) && !name.contains(':') && real
    });
    let others: Vec<String> = others.collect();
    names.extend(others);
    let checks = names.into_iter().map(|name| async move {
        let found = one(providers, &name, calls).await;
        let found = found
            .map(|text| text + &fewer_than(slots, providers, &name) + unpriced(providers, &name));
        Check::new(format!("judge {name}"), found)
    });
    futures::future::join_all(checks).await
}

/// Lists the spending caps. `None` without caps.
pub(super) fn caps(providers: &Providers) -> Option<Check> {
    let found = match providers.caps() {
        Ok(caps) if !caps.are_set() => return None,
        Ok(caps) => {
            let all = ("all judges".to_owned(), caps.total);
            let set = std::iter::once(all).chain(caps.by_entry());
            let lines = set.flat_map(|(of, cap)| {
                let caps = [(cap.daily_usd, "day"), (cap.monthly_usd, "month")];
                caps.map(|(usd, period)| usd.map(|usd| format!("{of}: {usd} USD a {period}")))
            });
            Ok(lines.flatten().collect::<Vec<_>>().join(", "))
        }
        Err(fault) => Err(fault),
    };
    Some(Check::new("caps", found))
}

/// Hint for a worker that has more slots than the judge allows concurrent calls.
fn fewer_than(slots: usize, providers: &Providers, name: &str) -> String {
    let spec = providers.spec(name).ok();
    let cap = spec.and_then(|spec| spec.max_concurrency());
    match cap.filter(|cap| usize::try_from(*cap).is_ok_and(|cap| cap < slots)) {
        Some(cap) => format!(
            "; gets {cap} calls at once (max_concurrency), a worker has {slots} slots (worker.concurrency)"
        ),
        None => String::new(),
    }
}

/// Warns if the judge's price is unknown.
fn unpriced(providers: &Providers, name: &str) -> &'static str {
    match providers.spec(name) {
        Ok(spec) if !spec.simulated() && spec.misses_price() => {
            "; its price is unknown, so that its costs aren't counted: name it under `prices` in llm_providers.yaml"
        }
        Ok(_) | Err(_) => "",
    }
}

async fn one(providers: &Providers, name: &str, calls: bool) -> Result<String, String> {
    providers.check(name).map_err(|error| error.to_string())?;
    let probed = match calls {
        true => App::probe_judge(providers, name).await,
        false => None,
    };
    match probed {
        None => Ok("is configured (not called)".to_owned()),
        Some(Ok(probed)) => {
            let simulated = if probed.simulated { " (simulated)" } else { "" };
            let seconds = probed.took.as_secs_f64();
            Ok(format!(
                "{} answers in {seconds:.1} s{simulated}",
                probed.model
            ))
        }
        Some(Err(error)) => {
            let class = error.class.as_str();
            // Uses the remedy of a job that fails with this class.
            let remedy = class.parse().map_or("", FailureClass::remedy);
            let remedy = remedy.replace(", then retry the job", "");
            Err(format!("{} ({class}); {remedy}", error.message))
        }
    }
}
