use chrono::{DateTime, Utc};
use gavel_clock::read_time;
use serde::{Deserialize, Deserializer};

/// Reads a time or null, for optional fields.
pub(crate) fn or_null<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<DateTime<Utc>>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    let read = text.map(|text| read_time(&text)).transpose();
    read.map_err(serde::de::Error::custom)
}
