//! CSV report (RFC 4180, UTF-8). Cells are converted by [`super::plain`].

use std::io::Write;

use super::columns::Columns;
use super::plain::{Plain, cell_text};
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
    let heads = columns.list.iter().map(|column| column.name);
    csv.write_record(heads).map_err(|e| failed(&e))?;
    source.each(&mut |item| {
        let cells = columns.list.iter().zip(columns.row(item));
        let cells = cells.map(|(column, cell)| Plain::new(&cell, column.holds).csv());
        csv.write_record(cells).map_err(|e| failed(&e))
    })?;
    csv.flush().map_err(|e| failed(&e))
}

/// Returns one record of any table. Cells are converted by [`super::plain`].
pub(crate) fn record(cells: &[String]) -> std::io::Result<Vec<u8>> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    csv.write_record(cells.iter().map(|text| cell_text(text)))?;
    csv.into_inner().map_err(|error| error.into_error())
}
