//! Memory budget of a process for the data that it reads, compares and reports, in bytes. The work reserves its weight and releases it at
//! its end. If there is too little, it waits or is rejected. Heavy work runs on a separate thread.
//!
//! The weight depends on the number of values in a text, not only on its length: 8 MB of JSON may contain four million values.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum wait of a request for memory.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Smaller weights aren't counted, so that normal requests don't wait for large ones.
const LIGHT: u64 = 1 << 20;
/// An eighth of the budget is for arriving bodies, so that slow senders don't block work.
const READING: u64 = 8;
/// Approximate memory of a value in a list or object from parsing to comparison, bytes.
const VALUE_BYTES: u64 = 280;
/// Additional memory of a list or object, bytes.
const LIST_BYTES: u64 = 320;
/// A case with more values is heavy: its rules may block the thread for too long.
const LIGHT_VALUES: u64 = 10_000;
/// Bytes of text that weigh as much as a value, because two queries of maximum length take as long to parse.
const BYTES_OF_A_VALUE: u64 = 8;

#[derive(Debug, Clone)]
pub struct MemoryBudget {
    working: Pool,
    reading: Pool,
    timeout: Duration,
}

#[derive(Debug, Clone)]
struct Pool {
    /// One permit per KiB.
    room: Arc<Semaphore>,
    all: u32,
}

/// Memory reserved from the budget. Dropping it returns the memory.
#[derive(Debug)]
pub struct Taken {
    _permit: Option<OwnedSemaphorePermit>,
}

/// Error of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// Other work uses it.
    Now,
    /// The weight exceeds the budget, both in bytes.
    Ever { weight: u64, most: u64 },
}

impl Pool {
    fn new(bytes: u64) -> Self {
        let all = u32::try_from(bytes >> 10).unwrap_or(u32::MAX >> 4);
        Self {
            room: Arc::new(Semaphore::new(all as usize)),
            all,
        }
    }

    /// A weight above the budget reserves all of it, so that the work runs exclusively.
    async fn take(&self, bytes: u64) -> Taken {
        let kib = u32::try_from(bytes >> 10).map_or(self.all, |kib| kib.min(self.all));
        let permit = self.room.clone().acquire_many_owned(kib).await;
        Taken {
            _permit: permit.ok(),
        }
    }
}

impl MemoryBudget {
    pub fn new(bytes: u64) -> Self {
        Self {
            working: Pool::new(bytes - bytes / READING),
            reading: Pool::new(bytes / READING),
            timeout: TIMEOUT,
        }
    }

    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Reserves memory for work of this weight, within ten seconds.
    pub async fn take(&self, weight: u64) -> Result<Taken, NoRoom> {
        let most = u64::from(self.working.all) << 10;
        if weight > most {
            return Err(NoRoom::Ever { weight, most });
        }
        self.in_time(&self.working, weight).await
    }

    /// Reserves memory for an arriving body, within ten seconds.
    pub async fn take_for_reading(&self, bytes: u64) -> Result<Taken, NoRoom> {
        self.in_time(&self.reading, bytes).await
    }

    /// Reserves memory for accepted work. Waits without a limit.
    pub async fn wait_for(&self, weight: u64) -> Taken {
        match weight < LIGHT {
            true => Taken { _permit: None },
            false => self.working.take(weight).await,
        }
    }

    async fn in_time(&self, pool: &Pool, bytes: u64) -> Result<Taken, NoRoom> {
        if bytes < LIGHT {
            return Ok(Taken { _permit: None });
        }
        let taken = tokio::time::timeout(self.timeout, pool.take(bytes)).await;
        taken.map_err(|_| NoRoom::Now)
    }
}

/// Size of a JSON text, derived from brackets and commas. Doesn't validate the JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JsonShape {
    /// Maximum nesting.
    pub depth: usize,
    values: u64,
    lists: u64,
    bytes: u64,
}

impl JsonShape {
    pub fn measure(text: &[u8]) -> Self {
        let (mut shape, mut open) = (Self::default(), 0_usize);
        let (mut in_string, mut escaped) = (false, false);
        for byte in text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => {
                    open += 1;
                    shape.depth = shape.depth.max(open);
                    shape.lists += 1;
                }
                b'}' | b']' if !in_string => open = open.saturating_sub(1),
                b',' if !in_string => shape.values += 1,
                _ => {}
            }
        }
        shape.bytes = text.len() as u64;
        shape
    }

    /// Returns the upper bound for another format with JSON in it. Brackets and commas count everywhere.
    pub fn of_any(text: &[u8]) -> Self {
        let mut shape = Self {
            bytes: text.len() as u64,
            ..Self::default()
        };
        for byte in text {
            match byte {
                b'{' | b'[' => shape.lists += 1,
                b',' => shape.values += 1,
                _ => {}
            }
        }
        shape
    }

    /// Returns the shape of a value, counted only until it is heavy. The JSON parser limits the depth.
    pub fn of_value(value: &Value) -> Self {
        let mut shape = Self::default();
        shape.add(value);
        shape
    }

    /// Adds a value. Returns whether counting may stop.
    fn add(&mut self, value: &Value) -> bool {
        self.values += 1;
        match value {
            Value::Array(items) => items.iter().any(|item| self.add(item)),
            Value::Object(map) => map.values().any(|item| self.add(item)),
            Value::String(text) => {
                self.bytes += text.len() as u64;
                self.is_heavy()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => self.is_heavy(),
        }
    }

    /// Returns the maximum weight of a text of this length, which consists of empty lists.
    pub fn heaviest(bytes: u64) -> u64 {
        Self {
            depth: 0,
            values: bytes / 3,
            lists: bytes / 3,
            bytes,
        }
        .weight()
    }

    /// Returns the approximate memory for parsing, validating and comparing, in bytes.
    pub fn weight(&self) -> u64 {
        // A list has one value more than commas.
        4 * self.bytes + (self.values + self.lists) * VALUE_BYTES + self.lists * LIST_BYTES
    }

    /// Returns whether its rules may block the thread for too long.
    pub fn is_heavy(&self) -> bool {
        let texts = self.bytes / BYTES_OF_A_VALUE;
        self.values + self.lists + texts > LIGHT_VALUES
    }
}

const NICE: i32 = 10;

/// Lowers the priority of this thread, which must not be one that serves requests. Otherwise, more heavy threads than cores would delay
/// probes. The change is permanent, because raising the priority needs a privilege.
pub(crate) fn lower_thread_priority() {
    // On other systems, the priority belongs to the whole process.
    if cfg!(target_os = "linux") {
        // The work continues if this fails.
        let _ = rustix::process::setpriority_process(None, NICE);
    }
}

/// Runs work that may be slow on a separate thread, so that requests are served in the meantime. Panics propagate.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let work = || {
        lower_thread_priority();
        work()
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn heavy_threads_have_lower_priority() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let usual = priority();
        assert_eq!(blocking(priority).await, NICE);
        assert_eq!(priority(), usual);
    }

    #[test]
    fn weight_depends_on_values_not_length() {
        let weight = |text: &str| JsonShape::measure(text.as_bytes()).weight();
        let cells = format!("[{}]", vec!["1"; 1_000_000].join(","));
        let text = format!("[\"{}\"]", "x".repeat(cells.len()));
        assert!(weight(&cells) > 10 * weight(&text));
        assert!(weight("[[],[],[]]") > weight("[1,1,1]"));
        assert_eq!(
            weight("\"[,{\\\",\""),
            4 * 8,
            "brackets within a text are text"
        );
    }

    #[test]
    fn depth_ignores_brackets_in_strings() {
        for (text, depth) in [
            (r#"[["[[[["]]"#, 2),
            (r#"[["\"[[[["],[],[]]"#, 2),
            ("[[[]]]", 3),
            (r#"{"a":{"b":[]}}"#, 3),
        ] {
            assert_eq!(JsonShape::measure(text.as_bytes()).depth, depth, "{text}");
        }
    }

    #[test]
    fn many_cells_and_long_texts_are_heavy() {
        let rows = |rows: usize, cells: usize| json!({"rows": vec![vec![1; cells]; rows]});
        let texts = |bytes: usize| json!({"one": "x".repeat(bytes), "other": "x".repeat(bytes)});
        for (payload, heavy) in [
            (rows(200, 20), false),
            (rows(200, 50), true),
            (texts(16 * 1024), false),
            (texts(64 * 1024), true),
        ] {
            let of_text = JsonShape::measure(payload.to_string().as_bytes());
            for shape in [of_text, JsonShape::of_value(&payload)] {
                assert_eq!(shape.is_heavy(), heavy, "{shape:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn full_budget_waits_until_timeout() {
        let budget = MemoryBudget::new(8 << 20);
        let most = 7 << 20;
        let all = budget.take(most).await.unwrap();
        assert_eq!(budget.take(LIGHT).await.unwrap_err(), NoRoom::Now);
        assert!(
            budget.take(LIGHT - 1).await.is_ok(),
            "a light one never waits"
        );
        assert!(
            budget.take_for_reading(LIGHT).await.is_ok(),
            "nor does one that arrives"
        );
        let (next, ()) = tokio::join!(budget.take(LIGHT), async { drop(all) });
        assert!(next.is_ok());
        assert_eq!(
            budget.take(most + 1).await.unwrap_err(),
            NoRoom::Ever {
                weight: most + 1,
                most
            }
        );
    }

    #[tokio::test(start_paused = true)]
    async fn oversized_accepted_work_runs_exclusively() {
        let budget = MemoryBudget::new(8 << 20);
        let alone = budget.wait_for(1 << 40).await;
        assert_eq!(budget.take(LIGHT).await.unwrap_err(), NoRoom::Now);
        drop(alone);
        assert!(budget.take(LIGHT).await.is_ok());
    }
}
