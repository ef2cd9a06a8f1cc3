//! Report formats.

use std::fmt;
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    Json,
    /// One line per item, which can be read back, see [`super::line`].
    Jsonl,
    Csv,
    /// A sheet with the summary, and one with a row per item.
    Xlsx,
    /// One row per item, with the typed columns of CSV.
    Parquet,
    Junit,
    /// Summary in Markdown, at most 900 KB.
    Markdown,
}

/// Name in API paths after `report.` and in `--format`, media type, and file name of each format, in the order of texts.
const TABLE: [(Format, &str, &str, &str); 7] = [
    (Format::Json, "json", "application/json", "report.json"),
    (
        Format::Jsonl,
        "jsonl",
        "application/x-ndjson",
        "evaluation-results.jsonl",
    ),
    (Format::Csv, "csv", "text/csv; charset=utf-8", "report.csv"),
    (Format::Xlsx, "xlsx", XLSX, "report.xlsx"),
    (
        Format::Parquet,
        "parquet",
        "application/vnd.apache.parquet",
        "report.parquet",
    ),
    (Format::Junit, "junit.xml", "application/xml", "junit.xml"),
    (
        Format::Markdown,
        "md",
        "text/markdown; charset=utf-8",
        "summary.md",
    ),
];
const XLSX: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

impl Format {
    pub const ALL: [Self; 7] = [
        Self::Json,
        Self::Jsonl,
        Self::Csv,
        Self::Xlsx,
        Self::Parquet,
        Self::Junit,
        Self::Markdown,
    ];

    pub fn as_str(self) -> &'static str {
        TABLE[self as usize].1
    }

    pub fn media_type(self) -> &'static str {
        TABLE[self as usize].2
    }

    pub fn file_name(self) -> &'static str {
        TABLE[self as usize].3
    }

    /// Returns whether it only has rows, so that a selection of items has no misleading summary.
    pub fn is_rows(self) -> bool {
        matches!(self, Self::Jsonl | Self::Csv | Self::Parquet)
    }

    pub fn is_binary(self) -> bool {
        matches!(self, Self::Xlsx | Self::Parquet)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no format of a report: use json, jsonl, csv, xlsx, parquet, junit.xml or md")]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    /// Parses the name. `junit` and `markdown` are accepted as well.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|format| format.as_str() == text);
        known
            .or(match text {
                "junit" => Some(Self::Junit),
                "markdown" => Some(Self::Markdown),
                _ => None,
            })
            .ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_parse_by_name_only() {
        for (format, row) in Format::ALL.into_iter().zip(TABLE) {
            assert_eq!(format, row.0);
            assert_eq!(format.as_str().parse(), Ok(format));
        }
        assert_eq!("junit".parse(), Ok(Format::Junit));
        let error = "pdf".parse::<Format>().unwrap_err().to_string();
        assert!(error.contains("junit.xml or md"), "{error}");
    }
}
