//! Reports as files of a folder.

use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use serde::Serialize as _;

use super::summary::{Figures, Summary};
use super::{Meta, ReportError, Source};

/// Sums up a source: its first pass.
pub(super) fn sum_up(source: &(impl Source + ?Sized), meta: &Meta) -> Result<Figures, ReportError> {
    let mut summary = Summary::default();
    source.each(&mut |item| {
        summary.add(item);
        Ok(())
    })?;
    Ok(summary.figures(meta))
}

/// Writes every report of a run into its folder, each one whole or not at all, over what was there: report.json, report.xlsx, report.csv,
/// junit.xml, summary.md. Blocks: for a thread of its own.
///
/// # Errors
/// Those of reading the items, and `Write` with the name of the file that can't be written.
pub fn write_all(
    dir: &Path,
    source: &(impl Source + ?Sized),
    meta: &Meta,
) -> Result<Figures, ReportError> {
    let figures = sum_up(source, meta)?;
    let path = dir.join("report.json");
    let failed =
        |error: &dyn std::fmt::Display| ReportError::writing(path.display().to_string(), error);
    let file = tempfile::NamedTempFile::new_in(dir).map_err(|e| failed(&e))?;
    let mut out = BufWriter::new(&file);
    figures
        .serialize(&mut serde_json::Serializer::new(&mut out))
        .map_err(|e| failed(&e))?;
    out.flush().map_err(|e| failed(&e))?;
    drop(out);
    fs::File::sync_all(file.as_file()).map_err(|e| failed(&e))?;
    file.persist(&path).map_err(|e| failed(&e.error))?;
    Ok(figures)
}
