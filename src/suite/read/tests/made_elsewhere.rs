//! Files written by other programs: sqlite3 3.40 (-json), Python 3.11 (json.dumps), pandas 3.0, DuckDB 1.x (COPY TO), openpyxl and
//! XlsxWriter. `excel-sep.csv` has the first line that Excel reads and writes.

use super::*;

fn cases(bytes: &[u8], format: Format, kind: Kind) -> Vec<Result<SuiteRow, SuiteError>> {
    rows_of(bytes, &ReadOptions::of_kind(format, kind))
}

fn column(bytes: &[u8], format: Format, name: &str) -> Value {
    let rows = cases(bytes, format, Kind::Query).into_iter();
    let values = rows.map(|row| row.unwrap().fields.get(name).cloned().unwrap_or_default());
    values.collect()
}

#[test]
fn duplicate_column_error_has_position() {
    let jsonl = include_bytes!("files/sqlite-names-twice.jsonl");
    let rows = cases(jsonl, Format::Jsonl, Kind::Query);
    assert!(rows[0].is_ok());
    let fault = rows[1].as_ref().unwrap_err().to_string();
    let said = "row 2, column expected_results/0/name: has the field `name` twice in one object: keep one, or rename one (in SQL by AS)";
    assert!(fault.starts_with(said), "{fault}");
    let rows = r#"[{"name":"Bo","name":"Ada"}]"#;
    let json = format!(r#"[{{"expected_results":{rows}}}]"#);
    let csv = format!("expected_results\n\"{}\"\n", rows.replace('"', "\"\""));
    let xlsx = workbook(|sheet| {
        sheet.write(0, 0, "expected_results").unwrap();
        sheet.write(1, 0, rows).unwrap();
    });
    for (bytes, format, place) in [
        (json.as_bytes(), Format::Json, "row 1"),
        (csv.as_bytes(), Format::Csv, "row 2"),
        (&xlsx, Format::Xlsx, "row 2"),
    ] {
        let found = cases(bytes, format, Kind::Query);
        let fault = found[0].as_ref().unwrap_err().to_string();
        assert!(
            fault.starts_with(&format!("{place}, column expected_results/0/name: ")),
            "{fault}"
        );
    }
}

#[test]
fn reads_numbers_outside_json() {
    let results = json!([[{"n": 1.5}], [{"n": null}, {"n": "Infinity"}]]);
    for (bytes, format) in [
        (&include_bytes!("files/python-nan.jsonl")[..], Format::Jsonl),
        (include_bytes!("files/python-nan.json"), Format::Json),
    ] {
        assert_eq!(column(bytes, format, "expected_results"), results);
        assert_eq!(
            column(bytes, format, "generated_error"),
            json!(["no such table", null])
        );
    }
    assert_eq!(
        column(
            include_bytes!("files/sqlite-infinity.jsonl"),
            Format::Jsonl,
            "generated_results"
        ),
        json!([[{"a": "Infinity", "b": "-Infinity", "c": null}]])
    );
    let row = json!([{"x": null, "y": "Infinity", "d": "2026-03-02", "t": "09:15:00"}]);
    assert_eq!(
        column(
            include_bytes!("files/duckdb.jsonl"),
            Format::Jsonl,
            "expected_results"
        ),
        json!([row, row])
    );
    let cell = b"expected_results\n\"[{\"\"n\"\": NaN}]\"\n";
    assert_eq!(
        column(cell, Format::Csv, "expected_results"),
        json!([[{"n": null}]])
    );
    let head = envelope(
        Cursor::new(r#"{"threshold": NaN, "items": [{"a": -Infinity}]}"#),
        SMALL,
    );
    assert_eq!(head.unwrap().fields["threshold"], json!(null));
}

#[test]
fn detects_csv_delimiter() {
    for bytes in [
        &include_bytes!("files/pandas-lists.csv")[..],
        include_bytes!("files/pandas-semicolons.csv"),
        include_bytes!("files/pandas-tabs.csv"),
        include_bytes!("files/excel-sep.csv"),
    ] {
        let query = column(bytes, Format::Csv, "expected_kql");
        assert_eq!(query[1], "SELECT 1");
        assert_eq!(
            query[0].as_str().map(|query| query.replace('\r', "")),
            Some("SELECT name\nFROM t".to_owned())
        );
        assert_eq!(
            column(bytes, Format::Csv, "generated_kql"),
            json!(["SELECT name; ", "SELECT name; "])
        );
        assert_eq!(
            column(bytes, Format::Csv, "expected_results"),
            json!([[{"name": "Ada", "n": 2}], [["Ada", null], ["Bo", true]]])
        );
    }
    let duckdb = include_bytes!("files/duckdb.csv");
    assert_eq!(
        column(duckdb, Format::Csv, "expected_results"),
        json!([[{"name": "Ada"}], [{"name": "Ada"}]])
    );
    let json = include_bytes!("files/duckdb.json");
    assert_eq!(column(json, Format::Json, "id"), json!(["a", "b"]));
    for first in ["sep=;\n", "SEP=;\r\n", "\"sep=;\"\n", "\n\nsep=;\r"] {
        let text = format!("{first}id;prompt\na;b,c\n\"x;y\";z\n");
        assert_eq!(
            column(text.as_bytes(), Format::Csv, "id"),
            json!(["a", "x;y"]),
            "{first:?}"
        );
    }
    for (text, line) in [
        ("sep=|\nid|prompt\n\na|b|c\n", 4),
        ("sep=,\r\nid,prompt\r\na\r\n", 3),
    ] {
        let rows = cases(text.as_bytes(), Format::Csv, Kind::Query);
        assert_eq!(rows[0].as_ref().unwrap_err().line, Some(line));
    }
}

#[test]
fn reports_utf_16_csv() {
    let rows = cases(include_bytes!("files/utf-16.csv"), Format::Csv, Kind::Query);
    let fault = rows[0].as_ref().unwrap_err().to_string();
    assert_eq!(
        fault,
        "row 1: is UTF-16, not UTF-8: save the file as CSV UTF-8"
    );
}

#[test]
fn sheet_times_are_times_durations_or_dates() {
    let times = |bytes| -> Vec<Value> {
        let rows = cases(bytes, Format::Xlsx, Kind::Qas).into_iter();
        let fields = rows.map(|row| row.unwrap().fields);
        fields
            .map(|fields| fields.get("expected_results").cloned().unwrap_or_default())
            .collect()
    };
    let openpyxl = times(include_bytes!("files/openpyxl-times.xlsx"));
    assert_eq!(
        openpyxl,
        [
            "09:15:00",
            "00:00:00",
            "23:59:59",
            "30:15:00",
            "01:05:00",
            "2026-03-02",
            "2026-03-02T09:15:00"
        ]
    );
    let pandas = times(include_bytes!("files/pandas-times.xlsx"));
    assert_eq!(
        pandas[..4],
        ["09:15:30", "2026-03-02", "2026-03-02T09:15:00", "09:15"]
    );
    let written = workbook(|sheet| {
        sheet
            .write_row(0, 0, ["question", "expected_results"])
            .unwrap();
        let format = |form: &str| rust_xlsxwriter::Format::new().set_num_format(form);
        for (row, (days, form)) in (1..).zip([
            (0.385_422_106_5, "hh:mm:ss.000"),
            (-0.25, "[h]:mm:ss"),
            (2.5, "[h]:mm"),
        ]) {
            sheet.write(row, 0, "When?").unwrap();
            sheet
                .write_with_format(row, 1, days, &format(form))
                .unwrap();
        }
    });
    assert_eq!(times(&written), ["09:15:00.470", "-06:00:00", "60:00:00"]);
}

#[test]
fn rejects_too_many_columns_before_comparing_names() {
    // Each resembles a field, so it would get a suggestion.
    let names: Vec<String> = (0..20_000).map(|n| format!("expected_kql{n}")).collect();
    let csv = names.join(",");
    let sheet = workbook(|sheet| {
        sheet.write_row(0, 0, names.iter().take(16_000)).unwrap();
    });
    for (bytes, format, said) in [
        (
            csv.as_bytes(),
            Format::Csv,
            "row 1: has 20000 columns; the maximum is 500: omit some",
        ),
        (
            &sheet,
            Format::Xlsx,
            "row 1: has more than 500 columns: leave some out",
        ),
    ] {
        let found = cases(bytes, format, Kind::Query);
        assert_eq!(found[0].as_ref().unwrap_err().to_string(), said);
    }
}

#[test]
fn stopped_file_is_not_read_further() {
    let stop = tokio_util::sync::CancellationToken::new();
    let line = "{\"session_id\": \"a\"}\n";
    let file = Stoppable::new(Cursor::new(line.repeat(100_000)), stop.clone());
    let mut rows = 0;
    let read_until_stopped = read(file, &reading(Format::Jsonl), &mut |row| {
        assert!(row.is_ok());
        rows += 1;
        stop.cancel();
        ControlFlow::Continue(())
    });
    // Rows in the buffer are still returned.
    assert!((1..10_000).contains(&rows), "{rows}");
    let fault = read_until_stopped.unwrap_err();
    assert!(fault.message.contains("the reader is closed"), "{fault}");
    for format in [Format::Json, Format::Csv, Format::Xlsx] {
        let file = Stoppable::new(Cursor::new(line), stop.clone());
        let read = read(file, &reading(format), &mut |row| panic!("{row:?}"));
        assert!(read.is_err());
    }
}

#[test]
fn reading_ends_when_the_visitor_breaks() {
    let sheet = workbook(|sheet| {
        sheet.write_column(0, 0, ["session_id", "a", "b"]).unwrap();
    });
    for (bytes, format) in [
        (&b"[{}, {}, nonsense"[..], Format::Json),
        (b"{}\n{}\nnonsense", Format::Jsonl),
        (b"session_id\na\nb\n\"", Format::Csv),
        (&sheet, Format::Xlsx),
    ] {
        let mut rows = 0;
        let read = read(Cursor::new(bytes.to_vec()), &reading(format), &mut |row| {
            assert!(row.is_ok());
            rows += 1;
            ControlFlow::Break(())
        });
        assert_eq!((read, rows), (Ok(()), 1), "{format:?}");
    }
}
