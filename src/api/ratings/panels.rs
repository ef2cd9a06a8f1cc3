//! GET `/api/v1/batches/{batch_id}/spread`: spread of the scores of repeats and juries.
//!
//! The median of a panel belongs to the batch. It isn't stored as a score.

use std::collections::{BTreeMap, VecDeque};

use axum::Json;
use uuid::Uuid;

use super::agreement::scales;
use crate::api::ApiState;
use crate::api::http::extract::{Path, Query};
use crate::api::http::problem::{ApiError, ApiResult};
use crate::job::Purpose;
use crate::score::session::{Flag, Rating};
use crate::score::trust::{JudgeFigures, Panel, PanelFigures, Panels, Vote};
use crate::store::{AskedOfPanel, Basis, RatingsMet, Store, StoreError};
use crate::wire::words::counted;
use crate::wire::{self, PageQuery, PanelJudge, PanelSummary, Spread};

/// List type in cursors.
const LIST: char = 'p';
/// Name of a job's judge if the job has none.
const NO_JUDGE: &str = "none";

/// Returns the spread of the scores of repeats or of a jury.
///
/// While the batch runs, it covers the scores so far. If real judges scored any session, simulated scores are excluded.
/// Each judge is compared with the human ratings of the same sessions. See docs/trust.md for the interpretation.
#[utoipa::path(
    get, path = "/api/v1/batches/{batch_id}/spread", tag = "trust",
    params(PageQuery),
    responses(
        (status = 200, description = "The panels", body = Spread),
        (status = 404, description = "batch-not-found"),
    ),
)]
pub(crate) async fn get_spread(
    state: ApiState,
    Path(id): Path<Uuid>,
    Query(query): Query<PageQuery>,
) -> ApiResult<Spread> {
    let (limit, after) = (query.limit(), after(query.cursor.as_deref())?);
    if state.store.batches().get(id).await?.is_none() {
        return Err(ApiError::BatchNotFound(id));
    }
    let whole = Whole::read(Sessions::behind(&state.store, id, None)).await?;
    let met = state
        .store
        .ratings()
        .met_by_judge(id, whole.basis())
        .await?;
    let sessions = Sessions::behind(&state.store, id, after);
    let (items, next) = page(sessions, whole.basis(), limit as usize).await?;
    Ok(Json(Spread {
        batch_id: id,
        purpose: whole.purpose,
        simulated: whole.made_up > 0 && whole.basis() == Basis::Simulated,
        warnings: whole.warnings(),
        summary: summary(whole.figures(), &met),
        next_cursor: next.map(|id| format!("{LIST}{}", id.simple())),
        items,
    }))
}

/// Returns the last session of the previous page.
fn after(cursor: Option<&str>) -> Result<Option<Uuid>, ApiError> {
    let id = |text: &str| Uuid::try_parse(text.strip_prefix(LIST)?).ok();
    let message = "is not a position in this list; use a next_cursor of this list, or omit it";
    let read = |text| id(text).ok_or_else(|| ApiError::fault("/cursor", message));
    cursor.map(read).transpose()
}

/// Iterates over the sessions of a batch's panels. Reads some thousand items at a time.
struct Sessions<'s> {
    store: &'s Store,
    batch_id: Uuid,
    /// Session and job of the last item read.
    after: (Uuid, Uuid),
    items: VecDeque<AskedOfPanel>,
    read: bool,
}

impl<'s> Sessions<'s> {
    fn behind(store: &'s Store, batch_id: Uuid, session: Option<Uuid>) -> Self {
        Self {
            store,
            batch_id,
            after: session.map_or((Uuid::nil(), Uuid::nil()), |id| (id, Uuid::max())),
            items: VecDeque::new(),
            read: false,
        }
    }

    async fn next(&mut self) -> Result<Option<Vec<AskedOfPanel>>, StoreError> {
        let mut session: Vec<AskedOfPanel> = Vec::new();
        loop {
            while let Some(item) = self.items.pop_front() {
                let first = session.first().map(|first| first.session_id);
                if first.is_some_and(|first| first != item.session_id) {
                    self.items.push_front(item);
                    return Ok(Some(session));
                }
                session.push(item);
            }
            if self.read {
                return Ok((!session.is_empty()).then_some(session));
            }
            let items = self
                .store
                .batches()
                .asked_of_panels(self.batch_id, self.after)
                .await?;
            match items.last() {
                Some(last) => self.after = (last.session_id, last.job_id),
                None => self.read = true,
            }
            self.items = items.into();
        }
    }
}

/// Totals over all panels of a batch. If there are real scores, only they count, which is known only at the end.
#[derive(Default)]
struct Whole {
    purpose: Option<Purpose>,
    all: Panels,
    real: Panels,
    real_scores: usize,
    made_up: usize,
}

impl Whole {
    async fn read(mut sessions: Sessions<'_>) -> Result<Self, StoreError> {
        let mut whole = Self::default();
        while let Some(mut session) = sessions.next().await? {
            let items = session.len();
            whole.purpose = whole.purpose.or(session.first().map(|item| item.purpose));
            whole.all.add(&votes(&session), items);
            session.retain(|item| !item.simulated);
            whole.made_up += items - session.len();
            if !session.is_empty() {
                let votes = votes(&session);
                whole.real_scores += votes.len();
                whole.real.add(&votes, session.len());
            }
        }
        Ok(whole)
    }

    fn basis(&self) -> Basis {
        match self.real_scores {
            0 => Basis::Simulated,
            _ => Basis::Real,
        }
    }

    fn figures(&self) -> PanelFigures {
        match self.basis() {
            Basis::Real => self.real.figures(),
            Basis::Simulated => self.all.figures(),
        }
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.purpose.is_none() {
            warnings.push("the batch isn't a batch of repeats or of a jury".to_owned());
        }
        match (self.made_up, self.basis()) {
            (0, _) => {}
            (n, Basis::Real) => {
                warnings.push(format!(
                    "excluded: {} of a simulated judge",
                    counted(n, "score")
                ));
            }
            (_, Basis::Simulated) => warnings.push(
                "all scores are from a simulated judge: they don't reflect a real one".to_owned(),
            ),
        }
        warnings
    }
}

/// Returns up to `limit` panels, and the last session if another page follows.
async fn page(
    mut sessions: Sessions<'_>,
    basis: Basis,
    limit: usize,
) -> Result<(Vec<wire::Panel>, Option<Uuid>), StoreError> {
    let mut items: Vec<wire::Panel> = Vec::new();
    while let Some(mut session) = sessions.next().await? {
        match basis {
            Basis::Real => session.retain(|item| !item.simulated),
            Basis::Simulated => {}
        }
        if session.is_empty() {
            continue;
        }
        if items.len() == limit {
            let last = items.last().map(|last| last.session_id);
            return Ok((items, last));
        }
        items.push(panel(&session, &votes(&session)));
    }
    Ok((items, None))
}

fn votes(session: &[AskedOfPanel]) -> Vec<Vote<&str>> {
    session
        .iter()
        .filter_map(|item| {
            Some(Vote {
                judge: item.judge.as_deref().unwrap_or(NO_JUDGE),
                total: item.total?,
            })
        })
        .collect()
}

fn panel(session: &[AskedOfPanel], votes: &[Vote<&str>]) -> wire::Panel {
    let panel = Panel::from_votes(votes);
    let is_jury = session.iter().any(|item| item.purpose == Purpose::Jury);
    let disagrees = panel.is_some_and(|panel| panel.disagrees);
    let scores = session.iter().filter_map(|item| {
        let total = item.total?;
        Some(wire::Vote {
            job_id: item.job_id,
            judge: item.judge.clone().unwrap_or_else(|| NO_JUDGE.to_owned()),
            total,
            rating: Rating::from_total(total),
        })
    });
    wire::Panel {
        session_id: session.first().map_or(Uuid::nil(), |item| item.session_id),
        asked: session.len(),
        scores: scores.collect(),
        median: panel.map(|panel| panel.spread.median),
        rating: panel.map(|panel| panel.rating),
        sd: panel.and_then(|panel| panel.spread.sd),
        range: panel.map(|panel| panel.spread.range),
        flips: panel.map_or(0, |panel| panel.flips),
        flipped: panel.is_some_and(|panel| panel.flips > 0),
        flags: if is_jury && disagrees {
            vec![Flag::JuryDisagreement]
        } else {
            Vec::new()
        },
    }
}

fn summary(figures: PanelFigures, met: &BTreeMap<Option<String>, RatingsMet>) -> PanelSummary {
    let agreement = |judge: &str| {
        let of = |name: &Option<String>| name.as_deref().unwrap_or(NO_JUDGE) == judge;
        let met = met.iter().find(|(name, _)| of(name));
        met.map_or_else(Vec::new, |(_, met)| scales(met))
    };
    let judge = |judge: JudgeFigures| PanelJudge {
        agreement: agreement(&judge.judge),
        judge: judge.judge,
        scores: judge.scores,
        mean: judge.mean,
        mean_difference: judge.mean_difference,
    };
    PanelSummary {
        sessions: figures.sessions,
        complete: figures.complete,
        scores: figures.scores,
        mean_sd: figures.mean_sd,
        flip_share: figures.flip_share,
        disagreements: figures.disagreements,
        judges: figures.judges.into_iter().map(judge).collect(),
    }
}
