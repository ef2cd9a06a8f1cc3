//! Parts as they are filled and handed over.

use uuid::Uuid;

use super::{EconomyLane, Trouble, count, no_endpoint};
use crate::job::Job;
use crate::judge::{Added, Economy, ErrorClass, JudgeError, Part, PartSize};
use crate::store::{BatchRow, Brake, BrakeTarget, NewPart, ProviderPart};
use crate::wire::PartState;

/// Items read at once.
const PAGE: u32 = 100;
/// The most that one part may weigh, whatever its provider takes: it is held in memory while it is handed over.
const PART_BYTES: usize = 50_000_000;

/// A part in the making.
struct Filled {
    part: Part,
    new: NewPart,
}

impl EconomyLane {
    /// Hands over what is in no part yet, part by part; whether nothing is left. Once the provider had no room, parts are smaller
    /// and go one after the other.
    pub(super) async fn hand_over(&self, batch: &BatchRow) -> Result<bool, Trouble> {
        loop {
            let parts = self.store.provider_parts(batch.batch_id).await?;
            let turned_away = count(&parts, ProviderPart::was_turned_away);
            if turned_away > 0 && count(&parts, ProviderPart::is_open) > 0 {
                return Ok(false);
            }
            let size = self
                .options
                .part
                .checked_shr(turned_away)
                .unwrap_or(0)
                .max(1);
            let Some((economy, filled)) = self.fill(batch.batch_id, size).await? else {
                return Ok(true);
            };
            let _way = self.way.begin();
            if !self.store.make_part(&filled.new).await? {
                return Ok(false);
            }
            if !filled.new.items.is_empty() && !self.send(&economy, filled).await? {
                return Ok(false);
            }
        }
    }

    /// Hands a part over that was noted; false: its batch was stopped, or is somebody else's, meanwhile.
    async fn send(&self, economy: &Economy, filled: Filled) -> Result<bool, Trouble> {
        let (tag, calls) = (filled.new.tag, filled.part.calls());
        let uploaded = match economy.upload(filled.part).await {
            Ok(uploaded) => uploaded,
            Err(error) => return self.not_sent(tag, error, Arrived::No).await,
        };
        if !self.store.may_hand_over(tag, self.worker_id).await? {
            self.store.forget_part(tag, self.worker_id).await?;
            return Ok(false);
        }
        let theirs = match economy.submit(uploaded).await {
            Ok(theirs) => theirs,
            Err(error) => return self.not_sent(tag, error, Arrived::Perhaps).await,
        };
        let now = self.clock.now();
        if !self.store.part_submitted(tag, &theirs, now).await? {
            tracing::warn!(%tag, "a part arrived after it was given up; it is cancelled");
            economy.cancel(&theirs).await?;
            return Ok(false);
        }
        tracing::info!(batch_id = %filled.new.batch_id, %tag, calls, "handed a part over");
        Ok(true)
    }

    /// A part that met an error: its end, or another try later.
    async fn not_sent(
        &self,
        tag: Uuid,
        error: JudgeError,
        arrived: Arrived,
    ) -> Result<bool, Trouble> {
        if is_final(&error) {
            let ended = self
                .store
                .end_part(tag, PartState::Failed, Some(&error.message));
            ended.await?;
            tracing::warn!(%tag, %error, "a provider refused a part; its items are asked one by one, at the full price");
            return Ok(true);
        }
        // Else it may have arrived: the next look finds out.
        if arrived == Arrived::No || says_no(&error) {
            self.store.forget_part(tag, self.worker_id).await?;
        }
        Err(error.into())
    }

    /// Nothing goes out while the queue or the judge is stopped, by whomever.
    async fn check_brakes(&self, judge: &str) -> Result<(), Trouble> {
        let brakes = self.store.brakes(self.clock.now()).await?;
        let stops = |brake: &&Brake| match &brake.target {
            BrakeTarget::Queue => true,
            BrakeTarget::Judge(name) => name == judge,
        };
        match brakes.iter().find(stops) {
            Some(brake) => Err(Trouble::Stopped(words_of(brake))),
            None => Ok(()),
        }
    }

    /// Fills a part with what is in none yet, for the judge of the first such item; `None`: there is nothing.
    async fn fill(
        &self,
        batch_id: Uuid,
        size: usize,
    ) -> Result<Option<(Economy, Filled)>, Trouble> {
        let mut page = self.store.items_in_no_part(batch_id, -1, PAGE).await?;
        let Some(first) = page.first() else {
            return Ok(None);
        };
        let judge = first.judge.clone().unwrap_or_default();
        self.check_brakes(&judge).await?;
        let tag = Uuid::now_v7();
        let mut new = NewPart {
            tag,
            batch_id,
            judge: judge.clone(),
            owner: self.worker_id,
            items: Vec::new(),
            left_out: Vec::new(),
            at: self.clock.now(),
        };
        let economy = self
            .judges
            .get(&judge)
            .ok()
            .and_then(|judge| judge.economy());
        let Some(economy) = economy else {
            // Its entry was changed meanwhile.
            return Err(Trouble::Judge(no_endpoint(&judge)));
        };
        let most = PartSize {
            calls: size,
            bytes: PART_BYTES,
        };
        let mut part = economy.part(tag, most)?;
        while !page.is_empty() {
            let mut after = -1;
            for job in &page {
                after = job.batch.map_or(after, |place| place.item_no);
                if job.judge.as_deref() != Some(judge.as_str()) {
                    continue;
                }
                if self.put(&economy, &mut part, &mut new, job).await? == Added::Full {
                    return Ok(Some((economy, Filled { part, new })));
                }
            }
            page = self.store.items_in_no_part(batch_id, after, PAGE).await?;
        }
        Ok(Some((economy, Filled { part, new })))
    }

    /// Puts an item into a part, or beside it where no question can be made of it.
    async fn put(
        &self,
        economy: &Economy,
        part: &mut Part,
        new: &mut NewPart,
        job: &Job,
    ) -> Result<Added, Trouble> {
        let left_out = match self.question(job).await? {
            Some(question) => match economy.add(part, job.job_id.0, &question) {
                Ok(Added::In) => {
                    let key = economy.key(job.job_id.0, &question);
                    new.items.push((job.job_id, key));
                    return Ok(Added::In);
                }
                Ok(Added::Full) => return Ok(Added::Full),
                Err(error) => error.message,
            },
            None => "no question can be made of it".to_owned(),
        };
        new.left_out.push((job.job_id, left_out));
        Ok(Added::In)
    }
}

/// Whether a part that met an error is at its provider all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrived {
    No,
    Perhaps,
}

/// Whether the provider has said that it didn't take a part: the key, the quota or its load, and nothing that got lost on the way.
fn says_no(error: &JudgeError) -> bool {
    matches!(error.status, Some(401 | 402 | 403 | 429 | 529))
}

fn words_of(brake: &Brake) -> String {
    let what = match &brake.target {
        BrakeTarget::Queue => "the queue is stopped".to_owned(),
        BrakeTarget::Judge(judge) => format!("judge {judge:?} is stopped"),
    };
    let mut words = format!("{what} ({})", brake.reason);
    if !brake.message.is_empty() {
        words = format!("{words}: {}", brake.message);
    }
    match brake.until {
        Some(until) => format!("{words}; until {}", until.format("%Y-%m-%dT%H:%M:%SZ")),
        None => words,
    }
}

/// Whether trying again would end the same: the provider has read the part, or has no place for one.
fn is_final(error: &JudgeError) -> bool {
    match error.class {
        ErrorClass::Rejected
        | ErrorClass::TooLarge
        | ErrorClass::Capability
        | ErrorClass::Refused
        | ErrorClass::Truncated
        | ErrorClass::Unparsable => true,
        // A key may be corrected; an address without batches won't be.
        ErrorClass::Misconfigured => error.status == Some(404),
        ErrorClass::Transient | ErrorClass::Throttled | ErrorClass::Exhausted => false,
    }
}
