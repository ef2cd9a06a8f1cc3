//! Workbook with a summary sheet and a sheet with one row per item, equal to the CSV report.
//!
//! Rows are written to a temporary file, so memory doesn't depend on their number.

use std::io::{Seek, Write};

use rust_xlsxwriter::{
    Color, ConditionalFormatCell, ConditionalFormatCellRule, Format, FormatAlign, Workbook,
    Worksheet, XlsxError,
};

use super::columns::{ColumnType, Columns};
use super::overview;
use super::plain::Plain;
use super::summary::Figures;
use super::{Meta, ReportError, Source};
use crate::score::STATUS;

const ROWS: u32 = 1_048_575;
const SUMMARY_WIDTHS: [u16; 6] = [30, 44, 12, 12, 12, 12];
/// Colours of the status: text, font, background.
const COLOURS: [(&str, u32, u32); 4] = [
    ("PASS", 0x00_61_00, 0xC6_EF_CE),
    ("FAIL", 0x9C_00_06, 0xFF_C7_CE),
    ("INCOMPLETE", 0x7F_60_00, 0xFF_EB_9C),
    ("SCORED", 0x1F_4E_79, 0xDD_EB_F7),
];

pub(super) fn write(
    out: &mut (impl Write + Seek + Send),
    source: &(impl Source + ?Sized),
    (figures, meta): (&Figures, &Meta),
) -> Result<(), ReportError> {
    let mut workbook = Workbook::new();
    let sheet = workbook.add_worksheet_with_constant_memory();
    summary(sheet.map_err(failed)?, figures, meta).map_err(failed)?;
    let columns = Columns::for_kinds(&figures.kinds);
    let sheet = workbook.add_worksheet_with_constant_memory();
    let sheet = sheet.map_err(failed)?;
    results(sheet, &columns, figures.all.n).map_err(failed)?;
    let text = Format::new().set_align(FormatAlign::Top);
    let mut row = 0;
    source.each(&mut |item| {
        if row == ROWS {
            return Ok(());
        }
        row += 1;
        let cells = columns.list.iter().zip(columns.row(item));
        for (nth, (column, cell)) in (0_u16..).zip(cells) {
            let cell = Plain::new(&cell, column.holds);
            put(sheet, (row, nth), cell, &text).map_err(failed)?;
        }
        Ok(())
    })?;
    workbook.save_to_writer(out).map_err(failed)
}

fn failed(error: XlsxError) -> ReportError {
    ReportError::writing("the XLSX report", error)
}

fn summary(sheet: &mut Worksheet, figures: &Figures, meta: &Meta) -> Result<(), XlsxError> {
    let title = Format::new().set_bold().set_font_size(14);
    let head = head();
    let left = Format::new().set_align(FormatAlign::Left);
    sheet.set_name("Summary")?;
    for (column, width) in (0_u16..).zip(SUMMARY_WIDTHS) {
        sheet.set_column_width(column, width)?;
    }
    let mut row = 0;
    for section in overview::sections(figures, meta) {
        sheet.write_with_format(row, 0, section.title, &title)?;
        row += 1;
        if !section.head.is_empty() {
            for (column, name) in (0_u16..).zip(&section.head) {
                sheet.write_with_format(row, column, *name, &head)?;
            }
            row += 1;
        }
        for cells in &section.rows {
            for (column, cell) in (0_u16..).zip(cells) {
                put(
                    sheet,
                    (row, column),
                    Plain::new(cell, ColumnType::Number),
                    &left,
                )?;
            }
            row += 1;
        }
        row += 1;
    }
    let mut notes = overview::notes(figures, meta);
    if figures.all.n > u64::from(ROWS) {
        notes.push(format!(
            "The sheet Results has the first {ROWS} items, which is all that a sheet holds; report.csv has them all."
        ));
    }
    for note in notes {
        sheet.write(row, 0, note)?;
        row += 1;
    }
    Ok(())
}

fn head() -> Format {
    Format::new()
        .set_bold()
        .set_text_wrap()
        .set_align(FormatAlign::VerticalCenter)
        .set_background_color(Color::RGB(0xD9_E1_F2))
}

fn put(
    sheet: &mut Worksheet,
    (row, column): (u32, u16),
    cell: Plain,
    format: &Format,
) -> Result<(), XlsxError> {
    match cell {
        Plain::Text(text) if text.is_empty() => {}
        Plain::Text(text) => {
            sheet.write_string_with_format(row, column, text, format)?;
        }
        Plain::Number(number) => {
            sheet.write_number_with_format(row, column, number, format)?;
        }
        Plain::Flag(flag) => {
            sheet.write_boolean_with_format(row, column, flag, format)?;
        }
    }
    Ok(())
}

/// Prepares the sheet of items: its header, filters and colours.
fn results(sheet: &mut Worksheet, columns: &Columns, items: u64) -> Result<(), XlsxError> {
    let head = head();
    sheet.set_name("Results")?;
    sheet.set_freeze_panes(1, 0)?;
    for (nth, column) in (0_u16..).zip(&columns.list) {
        sheet.set_column_width(nth, column.width)?;
        sheet.write_with_format(0, nth, column.name, &head)?;
    }
    let last = u32::try_from(items).unwrap_or(ROWS).clamp(1, ROWS);
    let width = u16::try_from(columns.list.len()).unwrap_or(u16::MAX);
    sheet.autofilter(0, 0, last, width.saturating_sub(1))?;
    let mut named = (0_u16..).zip(&columns.list);
    let Some((status, _)) = named.find(|(_, column)| column.name == STATUS) else {
        return Ok(());
    };
    for (text, letters, ground) in COLOURS {
        let colours = Format::new()
            .set_font_color(Color::RGB(letters))
            .set_background_color(Color::RGB(ground));
        let rule = ConditionalFormatCell::new()
            .set_rule(ConditionalFormatCellRule::EqualTo(text))
            .set_format(colours);
        sheet.add_conditional_format(1, status, last, status, &rule)?;
    }
    Ok(())
}
