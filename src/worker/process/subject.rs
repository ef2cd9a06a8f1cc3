//! Subject of a run: a session or a case. A small one is read once. A large one is read again for each step, on its own thread and within
//! the memory budget, so that it occupies no memory during judge calls.

use std::sync::Arc;

use super::{Ending, FailureClass, Fault, Job, Scorable, failed};
use crate::job::{Kind, Payload};
use crate::memory::{JsonShape, MemoryBudget, blocking};
use crate::score::read_case;

pub(super) enum Subject {
    Read(Arc<dyn Scorable>),
    Stored {
        kind: Kind,
        payload: Payload,
        weight: u64,
    },
}

impl Subject {
    pub(super) fn of_case(job: &Job) -> Result<Self, Ending> {
        let shape = JsonShape::measure(job.payload.text().as_bytes());
        if shape.is_heavy() {
            return Ok(Self::Stored {
                kind: job.kind,
                payload: job.payload.clone(),
                weight: shape.weight(),
            });
        }
        read(job.kind, &job.payload).map(|scorable| Self::Read(scorable.into()))
    }

    /// Drops the evidence, which isn't needed during judge calls.
    pub(super) fn without_evidence(self) -> Self {
        match self {
            Self::Read(scorable) => Self::Read(match scorable.without_evidence() {
                Some(less) => less.into(),
                None => scorable,
            }),
            stored @ Self::Stored { .. } => stored,
        }
    }

    /// Runs a step with the subject. Panics propagate.
    pub(super) async fn with<T: Send + 'static>(
        &self,
        memory: &MemoryBudget,
        step: impl FnOnce(&dyn Scorable) -> T + Send + 'static,
    ) -> Result<T, Ending> {
        let (kind, payload, weight) = match self {
            Self::Read(scorable) => return Ok(step(&**scorable)),
            Self::Stored {
                kind,
                payload,
                weight,
            } => (*kind, payload.clone(), *weight),
        };
        let taken = memory.wait_for(weight).await;
        blocking(move || {
            let _taken = taken;
            read(kind, &payload).map(|scorable| step(&*scorable))
        })
        .await
    }
}

fn read(kind: Kind, payload: &Payload) -> Result<Box<dyn Scorable>, Ending> {
    // The payload was validated at enqueue. It fails here only if an older release accepted more.
    let bad = |faults: Vec<Fault>| failed(FailureClass::BadInput, Fault::in_words(&faults));
    read_case(kind, &payload.value()).map_err(bad)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn subject(sql: &str) -> Subject {
        let payload = Payload::from(json!({"generated_sql": sql, "expected_sql": sql}));
        let shape = JsonShape::measure(payload.text().as_bytes());
        match shape.is_heavy() {
            false => Subject::Read(read(Kind::SqlMetrics, &payload).ok().unwrap().into()),
            true => Subject::Stored {
                kind: Kind::SqlMetrics,
                payload,
                weight: shape.weight(),
            },
        }
    }

    #[tokio::test]
    async fn small_and_large_subjects_return_their_memory() {
        let memory = MemoryBudget::new(1 << 20);
        for sql in [
            "select 1".to_owned(),
            format!("select '{}'", "x".repeat(60_000)),
        ] {
            let subject = subject(&sql);
            for _ in 0..2 {
                assert_eq!(subject.with(&memory, |_| 7).await.ok(), Some(7));
            }
        }
    }

    #[tokio::test]
    async fn heavy_subject_waits_for_memory() {
        let memory = MemoryBudget::new(8 << 20);
        let rows = vec![vec![1; 50]; 100];
        let payload = Payload::from(json!({
            "generated_kql": "T", "expected_kql": "T", "generated_results": rows, "expected_results": rows,
        }));
        let subject = Subject::Stored {
            kind: Kind::Query,
            weight: JsonShape::measure(payload.text().as_bytes()).weight(),
            payload,
        };
        let others = memory.take(7 << 20).await.unwrap();
        let mut run = Box::pin(subject.with(&memory, |_| 7));
        assert!(futures::poll!(&mut run).is_pending());
        drop(others);
        assert_eq!(run.await.ok(), Some(7));
    }

    #[tokio::test]
    async fn panic_on_large_subject_propagates() {
        let memory = MemoryBudget::new(1 << 20);
        let large = subject(&format!("select '{}'", "x".repeat(60_000)));
        let run = tokio::spawn(async move { large.with(&memory, |_| panic!("a bug")).await.ok() });
        assert!(run.await.unwrap_err().is_panic());
    }
}
