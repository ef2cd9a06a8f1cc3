//! CSV report (RFC 4180, UTF-8). Cells are converted by [`super::plain`].

use std::io::Write;

use super::columns::{Cell, Columns};
use super::plain::Plain;
use super::summary::Figures;
use super::{ReportError, Source};

pub(super) fn write(
    out: &mut dyn Write,
    source: &(impl Source + ?Sized),
    figures: &Figures,
) -> Result<(), ReportError> {
    let failed = |error: &dyn std::fmt::Display| ReportError::writing("the CSV report", error);
    let columns = Columns::for_kinds(&figures.kinds);
    let mut csv = csv::Writer::from_writer(out);
    let heads = columns.heads.iter().map(|(name, _)| name);
    csv.write_record(heads).map_err(|e| failed(&e))?;
    source.each(&mut |item| {
        let cells = columns.row(item).map(|cell| Plain::from_cell(&cell).csv());
        csv.write_record(cells).map_err(|e| failed(&e))
    })?;
    csv.flush().map_err(|e| failed(&e))
}

/// Returns one record of any table. Cells are converted by [`super::plain`].
pub(crate) fn record(cells: &[String]) -> std::io::Result<Vec<u8>> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    let cells = cells.iter().map(|text| Cell::text(Some(text)));
    csv.write_record(cells.map(|cell| Plain::from_cell(&cell).csv()))?;
    csv.into_inner().map_err(|error| error.into_error())
}
