//! Reports as files.

use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::path::Path;

use tempfile::NamedTempFile;

use super::summary::{Figures, Summary};
use super::{Format, Meta, ReportError, Source, csv, json, junit, markdown, parquet, xlsx};

/// What [`write_all`] writes.
const FILES: [Format; 5] = [
    Format::Json,
    Format::Xlsx,
    Format::Csv,
    Format::Junit,
    Format::Markdown,
];

/// Writes one report. Blocks, and reads the source more than once: for a thread of its own.
pub fn write(
    format: Format,
    source: &(impl Source + ?Sized),
    meta: &Meta,
    out: &mut (impl Write + Seek + Send),
) -> Result<(), ReportError> {
    match format {
        // It has no summary.
        Format::Jsonl => json::write_lines(out, source),
        Format::Json
        | Format::Csv
        | Format::Xlsx
        | Format::Parquet
        | Format::Junit
        | Format::Markdown => {
            let figures = sum_up(source, meta)?;
            write_summed(format, source, (&figures, meta), out)
        }
    }
}

/// Writes every report of a run into its folder, each one whole or not at all, over what was there: report.json, report.xlsx, report.csv,
/// junit.xml, summary.md. The figures are those of [`sum_up`], with what the run's gates say of them. Blocks: for a thread of its own.
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

/// Writes one report to a file, whole or not at all, over what was there. Blocks, like [`write()`].
pub fn write_file(
    format: Format,
    source: &(impl Source + ?Sized),
    meta: &Meta,
    path: &Path,
) -> Result<(), ReportError> {
    replace(path, |out| write(format, source, meta, out))
}

/// Writes a file whole or not at all: beside its place, then moved there.
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

/// A file in the folder of `path`, to be moved there once it is whole. Readable for whom a new file is, not for its owner alone.
pub(crate) fn beside(path: &Path) -> std::io::Result<NamedTempFile> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    tempfile::Builder::new()
        .prefix(".report-")
        .make_in(dir.unwrap_or(Path::new(".")), |path| File::create_new(path))
}

/// Sums up a source: its first pass. Knows no gates. Blocks, like [`write()`].
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
