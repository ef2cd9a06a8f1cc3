//! How much memory a process takes at once for what it reads, compares and reports: one budget of bytes. Whoever begins such work takes
//! what it weighs, and gives it back at its end; what finds no room is refused, or waits. What is heavy runs on a thread of its own.
//!
//! A weight goes by the values of a text and not by its length: 8 MB of JSON may be four million of them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a request waits for its room.
const TIMEOUT: Duration = Duration::from_secs(10);
/// What weighs less isn't counted: requests of a usual size never wait for large ones.
const LIGHT: u64 = 1 << 20;
/// One part of so many of the budget is for bodies that arrive: who sends slowly keeps nobody from working.
const READING: u64 = 8;
/// What a value in a list or an object takes on its way from JSON to a comparison, bytes, about.
const VALUE_BYTES: u64 = 280;
/// What a list or an object itself takes.
const LIST_BYTES: u64 = 320;
/// Above so many values a case is heavy: its rules may take longer than other work on the same thread can wait.
const LIGHT_VALUES: u64 = 10_000;
/// So many bytes of text weigh as much as a value: two queries of the longest take as long to parse.
const BYTES_OF_A_VALUE: u64 = 8;

/// The budget of one process.
#[derive(Debug, Clone)]
pub struct MemoryBudget {
    working: Pool,
    reading: Pool,
    timeout: Duration,
}

#[derive(Debug, Clone)]
struct Pool {
    /// A permit is a KiB.
    room: Arc<Semaphore>,
    all: u32,
}

/// Room that is taken until this goes.
#[derive(Debug)]
pub struct Taken {
    _permit: Option<OwnedSemaphorePermit>,
}

/// Why there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// Others have it.
    Now,
    /// It is more than there is, bytes.
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

    /// More than there is takes all there is: it runs alone.
    async fn take(&self, bytes: u64) -> Taken {
        let kib = u32::try_from(bytes >> 10).map_or(self.all, |kib| kib.min(self.all));
        let permit = self.room.clone().acquire_many_owned(kib).await;
        // Nobody closes it.
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

    /// Another time that a request waits.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Room for work of this weight, within ten seconds.
    pub async fn take(&self, weight: u64) -> Result<Taken, NoRoom> {
        let most = u64::from(self.working.all) << 10;
        if weight > most {
            return Err(NoRoom::Ever { weight, most });
        }
        self.in_time(&self.working, weight).await
    }

    /// Room for a body while it arrives, within ten seconds.
    pub async fn take_for_reading(&self, bytes: u64) -> Result<Taken, NoRoom> {
        self.in_time(&self.reading, bytes).await
    }

    /// Room for work that was accepted before: it waits as long as it takes.
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

/// What a JSON text is made of, as far as its brackets and commas tell. Whether it is JSON isn't looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JsonShape {
    /// How deep it is nested.
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

    /// The most that a text of some other form may be whose parts are JSON: brackets and commas count wherever they stand.
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

    /// A value's, counted no further than to know whether it is heavy. The JSON reader bounds the depth.
    pub fn of_value(value: &Value) -> Self {
        let mut shape = Self::default();
        shape.add(value);
        shape
    }

    /// Whether there is no need to count on.
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

    /// The most that a text of this length may weigh: lists of nothing.
    pub fn heaviest(bytes: u64) -> u64 {
        Self {
            depth: 0,
            values: bytes / 3,
            lists: bytes / 3,
            bytes,
        }
        .weight()
    }

    /// About how many bytes of memory it takes to be read, checked and compared.
    pub fn weight(&self) -> u64 {
        // A list has a value more than commas.
        4 * self.bytes + (self.values + self.lists) * VALUE_BYTES + self.lists * LIST_BYTES
    }

    /// Whether its rules may take so long that other work on the same thread notices.
    pub fn is_heavy(&self) -> bool {
        let texts = self.bytes / BYTES_OF_A_VALUE;
        self.values + self.lists + texts > LIGHT_VALUES
    }
}

/// How much a thread gives way that does what is heavy.
const NICE: i32 = 10;

/// Lets this thread, which isn't one of those that answer, give way to them: there may be more of its kind than cores, and a probe would
/// wait for one. It stays so: to take that back a process would need a right.
pub(crate) fn give_way() {
    // Elsewhere a priority is the whole process's.
    if cfg!(target_os = "linux") {
        // Without it the work is done all the same.
        let _ = rustix::process::setpriority_process(None, NICE);
    }
}

/// Does what may take long on a thread of its own, so that others are answered meanwhile. A panic goes through.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let work = || {
        give_way();
        work()
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and whoever waits here with it.
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
    async fn what_is_heavy_gives_way_to_what_answers() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let usual = priority();
        assert_eq!(blocking(priority).await, NICE);
        assert_eq!(priority(), usual);
    }

    #[test]
    fn a_text_weighs_what_its_values_take_and_not_what_it_is_long() {
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
    fn depth_counts_brackets_outside_of_strings_alone() {
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
    fn many_cells_are_heavy_and_so_are_long_texts() {
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
    async fn what_finds_no_room_waits_and_not_for_ever() {
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
    async fn what_was_accepted_runs_alone_where_it_is_more_than_there_is() {
        let budget = MemoryBudget::new(8 << 20);
        let alone = budget.wait_for(1 << 40).await;
        assert_eq!(budget.take(LIGHT).await.unwrap_err(), NoRoom::Now);
        drop(alone);
        assert!(budget.take(LIGHT).await.is_ok());
    }
}
