//! Writes reports to files.

use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::path::Path;

use tempfile::NamedTempFile;

use super::summary::{Figures, Summary};
use super::{Format, Meta, ReportError, Source, csv, json, junit, markdown, parquet, xlsx};

const FILES: [Format; 5] = [
    Format::Json,
    Format::Xlsx,
    Format::Csv,
    Format::Junit,
    Format::Markdown,
];

/// Writes one report. Blocks and reads the source more than once, so it needs a separate thread.
pub fn write(
    format: Format,
    source: &(impl Source + ?Sized),
    meta: &Meta,
    out: &mut (impl Write + Seek + Send),
) -> Result<(), ReportError> {
    if format == Format::Jsonl {
        // This format has no summary.
        return json::write_lines(out, source);
    }
    let figures = sum_up(source, meta)?;
    write_summed(format, source, (&figures, meta), out)
}

/// Writes all reports of a run into its folder, replacing each file atomically: report.json, report.xlsx, report.csv, junit.xml,
/// summary.md. The summary is [`sum_up`]'s with the run's gate results. Blocks.
pub fn write_all(
    dir: &Path,
    source: &(impl Source + ?Sized),
    summed: (&Figures, &Meta),
) -> Result<(), ReportError> {
    for format in FILES {
        let path = dir.join(format.file_name());
        replace(&path, |out| write_summed(format, source, summed, out))?;
    }
    Ok(())
}

/// Writes one report to a file, replacing it atomically. Blocks, like [`write()`].
pub fn write_file(
    format: Format,
    source: &(impl Source + ?Sized),
    meta: &Meta,
    path: &Path,
) -> Result<(), ReportError> {
    replace(path, |out| write(format, source, meta, out))
}

/// Replaces a file atomically: writes a temporary file in the same folder and renames it.
fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<NamedTempFile>) -> Result<(), ReportError>,
) -> Result<(), ReportError> {
    let failed =
        |error: &dyn std::fmt::Display| ReportError::writing(path.display().to_string(), error);
    let file = beside(path).map_err(|e| failed(&e))?;
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    let file = out.into_inner().map_err(|e| failed(&e))?;
    file.as_file().sync_all().map_err(|e| failed(&e))?;
    file.persist(path).map_err(|e| failed(&e.error))?;
    Ok(())
}

/// Creates a temporary file in the folder of `path`, with the permissions of a new file instead of owner-only ones.
pub(crate) fn beside(path: &Path) -> std::io::Result<NamedTempFile> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    tempfile::Builder::new()
        .prefix(".report-")
        .make_in(dir.unwrap_or(Path::new(".")), |path| File::create_new(path))
}

/// Returns the summary of a source without gates: its first pass. Blocks, like [`write()`].
pub fn sum_up(source: &(impl Source + ?Sized), meta: &Meta) -> Result<Figures, ReportError> {
    let mut summary = Summary::default();
    source.each(&mut |item| {
        summary.add(item);
        Ok(())
    })?;
    Ok(summary.figures(meta))
}

fn write_summed(
    format: Format,
    source: &(impl Source + ?Sized),
    summed: (&Figures, &Meta),
    out: &mut (impl Write + Seek + Send),
) -> Result<(), ReportError> {
    match format {
        Format::Json => json::write(out, source, summed)?,
        Format::Jsonl => json::write_lines(out, source)?,
        Format::Csv => csv::write(out, source, summed.0)?,
        Format::Xlsx => xlsx::write(out, source, summed)?,
        Format::Parquet => parquet::report(out, source, summed.0)?,
        Format::Junit => junit::write(out, source, summed)?,
        Format::Markdown => markdown::write(out, source, summed)?,
    }
    out.flush()
        .map_err(|error| ReportError::writing(format!("the report as {format}"), error))
}
