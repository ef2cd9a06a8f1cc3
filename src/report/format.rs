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

impl Format {
    /// All formats, in the order of texts.
    pub const ALL: [Self; 7] = [
        Self::Json,
        Self::Jsonl,
        Self::Csv,
        Self::Xlsx,
        Self::Parquet,
        Self::Junit,
        Self::Markdown,
    ];

    /// Returns the name used in API paths after `report.` and in `--format`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
            Self::Xlsx => "xlsx",
            Self::Parquet => "parquet",
            Self::Junit => "junit.xml",
            Self::Markdown => "md",
        }
    }

    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Jsonl => "application/x-ndjson",
            Self::Csv => "text/csv; charset=utf-8",
            Self::Xlsx => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            Self::Parquet => "application/vnd.apache.parquet",
            Self::Junit => "application/xml",
            Self::Markdown => "text/markdown; charset=utf-8",
        }
    }

    /// Returns whether it only has rows, so that a selection of items has no misleading summary.
    pub fn is_rows(self) -> bool {
        match self {
            Self::Jsonl | Self::Csv | Self::Parquet => true,
            Self::Json | Self::Xlsx | Self::Junit | Self::Markdown => false,
        }
    }

    pub fn is_binary(self) -> bool {
        matches!(self, Self::Xlsx | Self::Parquet)
    }

    pub fn file_name(self) -> &'static str {
        match self {
            Self::Json => "report.json",
            Self::Jsonl => "evaluation-results.jsonl",
            Self::Csv => "report.csv",
            Self::Xlsx => "report.xlsx",
            Self::Parquet => "report.parquet",
            Self::Junit => "junit.xml",
            Self::Markdown => "summary.md",
        }
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
        for format in Format::ALL {
            assert_eq!(format.as_str().parse(), Ok(format));
        }
        assert_eq!("junit".parse(), Ok(Format::Junit));
        let error = "pdf".parse::<Format>().unwrap_err().to_string();
        assert!(error.contains("junit.xml or md"), "{error}");
    }
}
