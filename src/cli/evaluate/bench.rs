//! Judge and criteria of a run, read from the service before the run. Detects an unavailable service early, and prevents resuming a run
//! with another judge or other criteria.

use std::path::Path;
use std::time::Duration;

use crate::app::model_of;
use crate::cli::outage::retried_for;
use crate::cli::outcome::CliError;
use crate::cli::progress::Progress;
use crate::client::{Client, ClientError};
use crate::config::Settings;
use crate::job::Kind;
use crate::suite::run::folder::{Bench, RunHeader};
use crate::wire::Judge;

/// Time for a service to start, as for an agent.
const START_TIMEOUT: Duration = Duration::from_secs(3);

/// Reads the judge and criteria of the service. `None` if the caller may not read them.
pub(super) async fn of_service(
    client: &Client,
    header: &RunHeader,
) -> Result<Option<Bench>, CliError> {
    let progress = Progress::new("items", 0);
    let hash = header.options.criteria_hash.as_deref();
    let ask = async || match hash {
        Some(hash) => client.criteria(hash).await,
        None => client.current_criteria(header.kind).await,
    };
    match retried_for(START_TIMEOUT, &progress, ask).await {
        Ok(criteria) => Ok(Some(Bench {
            judge: Some(criteria.version.judge),
            criteria_hash: criteria.version.criteria_hash,
            model: None,
        })),
        // The enqueue scope can't read criteria.
        Err(ClientError::Refused(problem)) if problem.status == 403 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the service's judges. Empty if the caller may not list them.
pub(super) async fn judges_of(client: &Client) -> Result<Vec<Judge>, CliError> {
    let progress = Progress::new("items", 0);
    match retried_for(START_TIMEOUT, &progress, async || client.judges().await).await {
        Ok(judges) => Ok(judges.items),
        Err(ClientError::Refused(problem)) if problem.status == 403 => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Rejects a run with an unavailable judge, before any item runs. Callers that may not list judges get the error with the first item.
pub(super) fn check_available(judges: &[Judge], bench: &Bench) -> Result<(), CliError> {
    let judge = bench.judge.as_deref();
    let known = judge.and_then(|name| find(judges, name));
    match known.filter(|judge| !judge.configured) {
        Some(unset) => Err(CliError::usage(format!(
            "judge {:?} can't be called: {}\n  --no-judge evaluates only the computed components",
            unset.name,
            unset.remedy.as_deref().unwrap_or_default()
        ))),
        None => Ok(()),
    }
}

/// Finds a judge by its name, by its entry's name, or by the model name of the default entry.
pub(super) fn find<'a>(judges: &'a [Judge], name: &str) -> Option<&'a Judge> {
    let first = |is_it: &dyn Fn(&str) -> bool| judges.iter().find(|known| is_it(&known.name));
    let model = format!(":{name}");
    first(&|known| known == name)
        .or_else(|| first(&|known| Some(known) == name.split(':').next()))
        .or_else(|| first(&|known| known.ends_with(&model)))
}

/// Adds the model, for a service in this process, because its settings contain it.
pub(super) fn with_model(bench: Bench, settings: &Settings) -> Result<Bench, CliError> {
    let model = match &bench.judge {
        Some(judge) => model_of(settings, judge)?,
        None => None,
    };
    Ok(Bench { model, ..bench })
}

/// Checks that the judge and the criteria of a resumed run are unchanged.
pub(super) fn check_unchanged(
    began: Option<&Bench>,
    now: &Bench,
    run: (&Path, Kind),
) -> Result<(), CliError> {
    match began {
        Some(began) if !began.is_that_of(now) => {
            let (folder, kind) = run;
            Err(CliError::usage(format!(
                "--resume {}: that run started with {began}; it would resume with {now}, and its scores would not be \
                 comparable. Restore its set-up (GAVEL_CRITERIA_{}, DEFAULT_LLM_PROVIDER, llm_providers.yaml), or start \
                 a new run",
                folder.display(),
                kind.as_str().to_ascii_uppercase()
            )))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_judge_by_own_name_first() {
        let judge = |name: &str| -> Judge {
            let spent = json!({"today_usd": 0.0, "month_usd": 0.0, "today_unpriced_calls": 0, "unpriced_calls": 0});
            serde_json::from_value(json!({"name": name, "configured": true, "remedy": null, "simulated": false, "kinds": [],
                "hold": null, "gates": [], "spent": spent, "cap": null}))
            .unwrap()
        };
        let judges = ["azure:gpt-4o", "main", "main:small", "gpt-4o"].map(judge);
        let found = |name| find(&judges, name).map(|judge| judge.name.as_str());
        assert_eq!(found("main:small"), Some("main:small"));
        assert_eq!(found("main:unknown"), Some("main"));
        assert_eq!(found("gpt-4o"), Some("gpt-4o"));
        assert_eq!(found("small"), Some("main:small"));
        assert_eq!(found("other"), None);
    }
}
