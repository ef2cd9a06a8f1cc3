//! Lists by cursor, so that each page costs the same.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::clock::is_taken;
use crate::store::StoreError;

/// An opaque position in a list, URL-safe text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub String);

#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// `None` on the last page.
    pub next_cursor: Option<Cursor>,
}

const MAX_ITEMS: u32 = 500;

pub(in crate::store) fn bounded(limit: u32) -> u32 {
    limit.clamp(1, MAX_ITEMS)
}

impl<T> Page<T> {
    /// Makes a page of up to `limit` items. The caller reads one item more than `limit` to detect a next page.
    pub(in crate::store) fn of(
        mut items: Vec<T>,
        limit: u32,
        cursor: impl Fn(&T) -> Cursor,
    ) -> Self {
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next_cursor = items.last().filter(|_| more).map(cursor);
        Self { items, next_cursor }
    }
}

impl Cursor {
    /// A position by id.
    pub(in crate::store) fn of_id(list: char, id: Uuid) -> Self {
        Self(format!("{list}{}", id.simple()))
    }

    /// A position by time, then id.
    pub(in crate::store) fn of_time(list: char, at: DateTime<Utc>, id: Uuid) -> Self {
        // Hex digits of the two's complement include the sign of times before 1970.
        Self(format!(
            "{list}{:016x}{}",
            at.timestamp_micros(),
            id.simple()
        ))
    }

    /// A position by a number of at least 0, then id.
    pub(in crate::store) fn of_number(list: char, number: i64, id: Uuid) -> Self {
        Self(format!("{list}{number:016x}{}", id.simple()))
    }

    pub(in crate::store) fn number(&self, list: char) -> Result<(i64, Uuid), StoreError> {
        let (number, id) = self.body(list, 48)?.split_at(16);
        let number = i64::from_str_radix(number, 16).map_err(|_| self.bad())?;
        Ok((number, Uuid::try_parse(id).map_err(|_| self.bad())?))
    }

    pub(in crate::store) fn id(&self, list: char) -> Result<Uuid, StoreError> {
        let text = self.body(list, 32)?;
        Uuid::try_parse(text).map_err(|_| self.bad())
    }

    pub(in crate::store) fn time(&self, list: char) -> Result<(DateTime<Utc>, Uuid), StoreError> {
        let (time, id) = self.body(list, 48)?.split_at(16);
        let micros = u64::from_str_radix(time, 16).map_err(|_| self.bad())?;
        let at = DateTime::from_timestamp_micros(micros.cast_signed())
            .filter(|at| is_taken(*at))
            .ok_or_else(|| self.bad())?;
        Ok((at, Uuid::try_parse(id).map_err(|_| self.bad())?))
    }

    fn body(&self, list: char, length: usize) -> Result<&str, StoreError> {
        self.0
            .strip_prefix(list)
            .filter(|text| text.len() == length && text.bytes().all(|b| b.is_ascii_hexdigit()))
            .ok_or_else(|| self.bad())
    }

    fn bad(&self) -> StoreError {
        let shown: String = self.0.chars().take(80).collect();
        StoreError::BadCursor(format!(
            "{shown:?} is not a position in this list; use a next_cursor of this list, or omit it"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_is_rejected_by_other_lists() {
        let id = Uuid::now_v7();
        let at = DateTime::from_timestamp_micros(-1_234_567).unwrap();
        assert_eq!(Cursor::of_id('j', id).id('j').unwrap(), id);
        assert_eq!(Cursor::of_time('s', at, id).time('s').unwrap(), (at, id));
        for text in ["", "j", "jzz", "s1234", "é", "j\u{0}"] {
            let cursor = Cursor(text.to_owned());
            assert!(
                matches!(cursor.id('j'), Err(StoreError::BadCursor(_))),
                "{text}"
            );
            assert!(
                matches!(cursor.time('s'), Err(StoreError::BadCursor(_))),
                "{text}"
            );
        }
        assert!(Cursor::of_id('j', id).id('s').is_err());
    }
}
