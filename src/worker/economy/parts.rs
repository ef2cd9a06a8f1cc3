//! Parts as they are filled and handed over.

use uuid::Uuid;

use super::{EconomyLane, Trouble, count, no_endpoint};
use crate::job::Job;
use crate::judge::{Added, Economy, ErrorClass, JudgeError, Part, PartSize};
use crate::store::{BatchRow, NewPart, PartState, ProviderPart};

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
            let tag = filled.new.tag;
            self.store.make_part(&filled.new).await?;
            if filled.new.items.is_empty() {
                continue;
            }
            let calls = filled.part.calls();
            match economy.submit(filled.part).await {
                Ok(theirs) => {
                    let now = self.clock.now();
                    self.store.part_submitted(tag, &theirs, now).await?;
                    tracing::info!(batch_id = %batch.batch_id, %tag, calls, "handed a part over");
                }
                Err(error) if is_final(&error) => {
                    let ended = self
                        .store
                        .end_part(tag, PartState::Failed, Some(&error.message));
                    ended.await?;
                    tracing::warn!(%tag, %error, "a provider refused a part; its items are asked one by one, at the full price");
                }
                // It may have arrived: the next look finds out.
                Err(error) => return Err(error.into()),
            }
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
        let tag = Uuid::now_v7();
        let mut new = NewPart {
            tag,
            batch_id,
            judge: judge.clone(),
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
                    new.items.push(job.job_id);
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
