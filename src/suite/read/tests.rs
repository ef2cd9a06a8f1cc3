//! Tests of reading valid and hostile files of all formats.

mod made_elsewhere;

use std::io::{Cursor, Write as _};

use proptest::prelude::*;
use serde_json::json;

use super::*;

const SMALL: Limits = Limits {
    items: 3,
    item_bytes: 200,
    file_bytes: 1 << 20,
    depth: 4,
    item_weight: 1 << 20,
};

fn reading(format: Format) -> ReadOptions<'static> {
    ReadOptions::of_kind(format, Kind::Session)
}

fn rows_of(bytes: &[u8], reading: &ReadOptions<'_>) -> Vec<Result<SuiteRow, SuiteError>> {
    let mut rows = Vec::new();
    let read = read(Cursor::new(bytes.to_vec()), reading, &mut |row| {
        rows.push(row);
        ControlFlow::Continue(())
    });
    rows.extend(read.err().map(Err));
    rows
}

fn payloads(bytes: &[u8], format: Format) -> Value {
    let rows = rows_of(bytes, &reading(format));
    let fields = rows
        .into_iter()
        .map(|row| Value::Object(row.unwrap().fields));
    fields.collect()
}

fn faults(bytes: &[u8], format: Format) -> Vec<String> {
    let reading = ReadOptions {
        limits: SMALL,
        ..reading(format)
    };
    let rows = rows_of(bytes, &reading);
    rows.into_iter()
        .filter_map(|row| row.err().map(|error| error.to_string()))
        .collect()
}

#[test]
fn pipes_between_cells_are_named_with_the_remedy() {
    let file = "expected_kql|generated_kql\nT|T\n";
    let reading = ReadOptions::of_kind(Format::Csv, Kind::Query);
    let error = rows_of(file.as_bytes(), &reading).remove(0).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("separated by |") && error.contains("`sep=|`"),
        "{error}"
    );
    let rows = rows_of(format!("sep=|\n{file}").as_bytes(), &reading);
    assert_eq!(rows[0].as_ref().unwrap().fields["generated_kql"], "T");
}

#[test]
fn json_that_excel_cut_is_named() {
    let reading = ReadOptions::of_kind(Format::Csv, Kind::Query);
    let row = |length: usize| {
        let json = format!("[{{\"a\": \"{}", "é".repeat(length - 8));
        let cell = json.replace('"', "\"\"");
        let file = format!("expected_kql,generated_kql,generated_results\nT,T,\"{cell}\"\n");
        rows_of(file.as_bytes(), &reading).remove(0)
    };
    let error = row(32_767).unwrap_err().to_string();
    assert!(
        error.contains("generated_results") && error.contains("Excel cuts"),
        "{error}"
    );
    assert!(row(32_766).is_ok(), "text is refused where rows are read");
}

#[test]
fn unclosed_quote_is_reported_without_losing_rows() {
    let head = "id,expected_kql,generated_kql\na,T,T\n";
    let reading = ReadOptions::of_kind(Format::Csv, Kind::Query);
    for (rest, line) in [
        ("b,T,\"T\nc,T,X\nd,T,Y\n", 3),
        ("b,T,T\nc,T,\"X\nd,T,Y", 4),
        ("b,T,\"T \"\" x\nc,T,X\n", 3),
        // A cell with line breaks is in one row.
        ("b,T,\"T\n| take 1\r\n\"\r\n\r\nc,T,\"X\nd", 5),
    ] {
        let text = format!("{head}{rest}");
        let faults: Vec<String> = rows_of(text.as_bytes(), &reading)
            .into_iter()
            .filter_map(Result::err)
            .map(|fault| fault.to_string())
            .collect();
        let expected = format!("row {line}: has an unclosed quote");
        assert_eq!(faults.len(), 1, "{rest}: {faults:?}");
        assert!(faults[0].starts_with(&expected), "{faults:?}");
    }
    let fine = "b,T,\"T \"\"x\"\"\n| take 1\"\nc,5\" disk,T\nd,T,\"X\"";
    let rows = rows_of(format!("{head}{fine}").as_bytes(), &reading);
    assert_eq!(rows.into_iter().filter_map(Result::ok).count(), 4);
}

#[test]
fn json_may_be_list_or_object_with_list() {
    let items = json!([{"a": [1, "]}\\\""]}, {"b": null}]);
    for text in [
        format!("\u{feff} {items}\n"),
        json!({ "name": "x", "items": items, "after": {"c": 1} }).to_string(),
        json!({ "questions": items }).to_string(),
    ] {
        assert_eq!(payloads(text.as_bytes(), Format::Json), items, "{text}");
    }
    assert_eq!(payloads(b"[]", Format::Json), json!([]));
    assert_eq!(payloads(b"{\"items\": [ ] }", Format::Json), json!([]));
}

#[test]
fn envelope_has_fields_before_and_after_items() {
    let text = r#"{"kind":"query","items":[{"a":1},5,{"b":2}],"threshold":0.5}"#;
    let found = envelope(Cursor::new(text), SMALL).unwrap();
    assert_eq!(
        Value::Object(found.fields),
        json!({"kind": "query", "threshold": 0.5})
    );
    assert_eq!(found.list.as_deref(), Some("items"));
    let bare = envelope(Cursor::new("[{}]"), SMALL).unwrap();
    assert_eq!(bare, Envelope::default());
}

#[test]
fn json_error_has_item() {
    let long = format!("[{{\"a\":\"{}\"}}]", "x".repeat(300));
    for (text, fault) in [
        ("", "the file is empty"),
        ("7", "expected a JSON list of objects, or an object"),
        ("[{},", "breaks off"),
        ("[{}] x", "there is text after its end: remove it"),
        (
            "{\"items\":[],\"questions\":[]}",
            "two lists of items, `items` and `questions`: put all items into one of them",
        ),
        (
            "[{},7]",
            "row 2: an item must be a JSON object, and this is a number",
        ),
        (
            "[{},\n{\"a\":}]",
            "row 2: the item is not JSON: expected value at its character 6",
        ),
        (
            "[{} {}]",
            "row 1: the item is not JSON: trailing characters at its character 4: remove them, or put each item on a line of its own",
        ),
        ("[,]", "row 1: the item is not JSON: EOF while parsing"),
        ("[{},]", "row 2: the item is not JSON: EOF while parsing"),
        ("[{\"a\":[}]", "row 1: the file is not JSON: it breaks off"),
        ("[{}}", "row 1: the file is not JSON: expected `,` or `]`"),
        ("{\"a\" 1}", "the file is not JSON: a key must be a string"),
        (
            "{\"items\":[]]",
            "the file is not JSON: expected `,` or `}`",
        ),
        ("[{},{},{},{}]", "more than 3 items"),
        (
            "[{\"a\":[[[[1]]]]}]",
            "row 1: the item is nested deeper than 4 levels",
        ),
        (long.as_str(), "row 1: the item has more than 200 bytes"),
        (
            "{\"name\":1}",
            "no list `items` or `questions`; its fields are [name]",
        ),
        (
            "{\"messages\":[]}",
            "its fields are [messages]; a session is scored by `gavel score FILE`",
        ),
        ("{\"items\":7}", "the field `items` is no list"),
        ("{\"items\":[],\"questions\":[]}", "two lists"),
        ("{\"a\":1,\"a\":2,\"items\":[]}", "duplicate field `a`"),
        ("{7:1}", "key must be a string"),
    ] {
        let found = faults(text.as_bytes(), Format::Json);
        assert!(
            found.iter().any(|found| found.contains(fault)),
            "{text}: {found:?}"
        );
    }
}

#[test]
fn reading_continues_after_invalid_row() {
    for (text, format) in [
        ("[{}, 1, {}]", Format::Json),
        ("{}\n1\n{}\n", Format::Jsonl),
        ("session_id\na\nb,c\nd\n", Format::Csv),
    ] {
        let rows = rows_of(text.as_bytes(), &reading(format));
        let good: Vec<bool> = rows.iter().map(Result::is_ok).collect();
        assert_eq!(good, [true, false, true], "{text}: {rows:?}");
    }
}

#[test]
fn jsonl_skips_and_counts_empty_lines() {
    let text = "\u{feff}{\"a\":1}\r\n\n  \n{\"b\":2}";
    let rows = rows_of(text.as_bytes(), &reading(Format::Jsonl));
    let lines: Vec<u64> = rows.iter().map(|row| row.as_ref().unwrap().line).collect();
    assert_eq!(lines, [1, 4]);
    let long = format!("{{}}\n{{\"a\":\"{}\"}}\n{{}}", "x".repeat(300));
    assert_eq!(
        faults(long.as_bytes(), Format::Jsonl),
        ["row 2: the item has more than 200 bytes"]
    );
    assert_eq!(faults(b"{}\n{}\n{}\n{}\n", Format::Jsonl).len(), 1);
}

#[test]
fn empty_jsonl_is_reported_as_empty_file() {
    for text in ["", "\n \n", "\u{feff}"] {
        assert_eq!(
            faults(text.as_bytes(), Format::Jsonl),
            ["the file is empty"],
            "{text:?}"
        );
    }
}

#[test]
fn reports_other_encodings() {
    let line = "{\"a\": \"caf\u{e9}\"}\n";
    let latin: Vec<u8> = line.chars().map(|c| u8::try_from(c).unwrap()).collect();
    let little: Vec<u8> = line.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = line.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let marked = [&b"\xff\xfe"[..], &little].concat();
    for (bytes, said) in [
        (latin, "row 1: the item is not UTF-8 (perhaps Latin-1"),
        (
            little,
            "row 1: the item is UTF-16, not UTF-8: save the file as UTF-8",
        ),
        (big, "row 1: the item is UTF-16"),
        (marked, "row 1: the item is UTF-16"),
    ] {
        let found = faults(&bytes, Format::Jsonl);
        assert!(found[0].starts_with(said), "{found:?}");
    }
    let list: Vec<u8> = "[{}]".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let told = faults(&[&b"\xff\xfe"[..], &list].concat(), Format::Json);
    assert!(told[0].starts_with("the file is UTF-16"), "{told:?}");
    let broken = faults(b"{\"a\": }\n", Format::Jsonl);
    assert!(
        broken[0].starts_with("row 1: the item is not JSON"),
        "{broken:?}"
    );
}

#[test]
fn csv_cells_are_typed_by_column() {
    let text = "\u{feff} session_id , force_rescore\n\"a,\"\"b\nc\",true\n7,\n,\"[1, {\"\"a\"\": 2}]\"\nx,not json\n";
    assert_eq!(
        payloads(text.as_bytes(), Format::Csv),
        json!([
            {"session_id": "a,\"b\nc", "force_rescore": true},
            {"session_id": "7"},
            {"force_rescore": [1, {"a": 2}]},
            {"session_id": "x", "force_rescore": "not json"},
        ])
    );
}

#[test]
fn csv_error_has_row_and_column() {
    let unclosed = format!("session_id\n\"{}", "x".repeat(200_000));
    for (text, fault) in [
        ("", "the file is empty"),
        (
            "session_id,\na,b\n",
            "row 1: column 2 of the header has no name",
        ),
        (
            "session_id,session_id\n",
            "column session_id: is in the header more than once",
        ),
        (
            "session_ID\n",
            "column session_ID: is no field; did you mean `session_id`?",
        ),
        (
            "zzz\n",
            "column zzz: is no field; there are [session_id, force_rescore]",
        ),
        (
            "session_id\nx\na,b\n",
            "row 3: has 2 cells where the header has 1",
        ),
        (
            "force_rescore\n[[[[[1]]]]]\n",
            "row 2, column force_rescore: is nested deeper than 4",
        ),
        (unclosed.as_str(), "is a quote not closed?"),
    ] {
        let found = faults(text.as_bytes(), Format::Csv);
        assert!(
            found.iter().any(|found| found.contains(fault)),
            "{text:.40}: {found:?}"
        );
    }
    let latin = b"session_id\nok\ncaf\xe9\n";
    assert_eq!(
        faults(latin, Format::Csv),
        ["row 3, column session_id: is not UTF-8: save the file as CSV UTF-8"]
    );
}

#[test]
fn csv_row_is_counted_as_in_a_spreadsheet_with_any_line_end() {
    let text = "session_id,force_rescore\n\na,1\n\"b\n\nb\",2\nc\n\n\nd,4\ne,5";
    for ends in ["\n", "\r\n", "\r"] {
        for start in ["", "\u{feff}", "\n\n"] {
            let before = if start == "\n\n" { 2 } else { 0 };
            let text = format!("{start}{text}").replace('\n', ends);
            let rows = rows_of(text.as_bytes(), &reading(Format::Csv));
            let lines: Vec<u64> = rows
                .iter()
                .map(|row| match row {
                    Ok(row) => row.line - before,
                    Err(error) => error.line.unwrap() - before,
                })
                .collect();
            assert_eq!(lines, [3, 4, 5, 8, 9], "{text:?}");
        }
    }
    // Longer than the read buffer, with line ends at its boundary.
    for length in 65_520..65_560 {
        let text = format!(
            "session_id\r\n\"{}\r\n\"\r\n\r\na,b\r\n",
            "x".repeat(length)
        );
        let rows = rows_of(text.as_bytes(), &reading(Format::Csv));
        assert_eq!(rows[1].as_ref().unwrap_err().line, Some(4), "{length}");
    }
}

#[test]
fn csv_skips_empty_rows() {
    let text = "session_id,force_rescore\n,\na,\n\"\",\n,,,\n,true\n,\n";
    let rows = rows_of(text.as_bytes(), &reading(Format::Csv));
    let found: Vec<(u64, u64)> = rows
        .iter()
        .map(|row| row.as_ref().map(|row| (row.item_no, row.line)).unwrap())
        .collect();
    assert_eq!(found, [(0, 3), (1, 6)]);
}

#[test]
fn reads_spreadsheet_booleans() {
    let text = "session_id,force_rescore\na,TRUE\nb, false\nTRUE,true\nc,yes\n";
    let rows = rows_of(text.as_bytes(), &reading(Format::Csv));
    let found: Vec<Value> = rows
        .iter()
        .map(|row| Value::Object(row.as_ref().unwrap().fields.clone()))
        .collect();
    assert_eq!(
        found,
        [
            json!({"session_id": "a", "force_rescore": true}),
            json!({"session_id": "b", "force_rescore": false}),
            json!({"session_id": "TRUE", "force_rescore": true}),
            json!({"session_id": "c", "force_rescore": "yes"}),
        ]
    );
}

#[test]
fn accepts_additional_columns() {
    let also = [Field {
        name: "agent",
        form: crate::score::FieldForm::Text,
    }];
    let reading = ReadOptions {
        also: &also,
        ..reading(Format::Csv)
    };
    let rows = rows_of(b"agent,session_id\nsql,7\n", &reading);
    assert_eq!(rows[0].as_ref().unwrap().fields["agent"], "sql");
}

fn workbook(fill: impl FnOnce(&mut rust_xlsxwriter::Worksheet)) -> Vec<u8> {
    let mut workbook = rust_xlsxwriter::Workbook::new();
    fill(workbook.add_worksheet());
    workbook.save_to_buffer().unwrap()
}

#[test]
fn xlsx_cells_are_typed_by_column() {
    let bytes = workbook(|sheet| {
        sheet.write(0, 0, "session_id").unwrap();
        sheet.write(0, 1, " force_rescore ").unwrap();
        sheet.write(1, 0, 7).unwrap();
        sheet.write(1, 1, true).unwrap();
        sheet.write(2, 0, 1.5).unwrap();
        sheet.write(2, 1, "[1]").unwrap();
        // Row 4 is empty.
        sheet.write(4, 0, false).unwrap();
        let date = rust_xlsxwriter::ExcelDateTime::from_ymd(2026, 1, 31).unwrap();
        let form = rust_xlsxwriter::Format::new().set_num_format("yyyy-mm-dd");
        sheet.write_with_format(5, 0, &date, &form).unwrap();
        sheet.write(5, 1, 0.25).unwrap();
    });
    let rows = rows_of(&bytes, &reading(Format::Xlsx));
    let lines: Vec<u64> = rows.iter().map(|row| row.as_ref().unwrap().line).collect();
    assert_eq!(lines, [2, 3, 5, 6]);
    assert_eq!(
        payloads(&bytes, Format::Xlsx),
        json!([
            {"session_id": "7", "force_rescore": true},
            {"session_id": "1.5", "force_rescore": [1]},
            {"session_id": "false"},
            {"session_id": "2026-01-31", "force_rescore": 0.25},
        ])
    );
}

/// Returns a workbook of sheets, each with its first column. A name that starts with `-` marks a hidden sheet.
fn sheets(sheets: &[(&str, &[&str])]) -> Vec<u8> {
    let mut workbook = rust_xlsxwriter::Workbook::new();
    for (name, cells) in sheets {
        let sheet = workbook.add_worksheet();
        sheet.set_name(name.trim_start_matches('-')).unwrap();
        sheet.set_hidden(name.starts_with('-'));
        sheet.write_column(0, 0, cells.iter().copied()).unwrap();
    }
    workbook.save_to_buffer().unwrap()
}

#[test]
fn reads_one_sheet_and_rejects_ambiguous_workbooks() {
    let items: &[&str] = &["session_id", "7"];
    let other: &[&str] = &["session_id", "8"];
    let notes: &[&str] = &["How to fill this in"];
    for workbook in [
        sheets(&[("Sheet1", items), ("Sheet2", &[]), ("Sheet3", &[""])]),
        sheets(&[("Empty", &[]), ("June", items)]),
        sheets(&[("Read me", notes), ("Items", items), ("Old", other)]),
        sheets(&[("questions", items), ("Lookup", notes)]),
        sheets(&[("June", items), ("-Lists", notes), ("-May", other)]),
    ] {
        let rows = payloads(&workbook, Format::Xlsx);
        assert_eq!(rows, json!([{"session_id": "7"}]));
    }
    let several = |n, names| {
        format!(
            "the workbook has {n} sheets with content, {names}, but only one is read: name the sheet with the items `items`, and hide \
             or delete the others"
        )
    };
    for (workbook, said) in [
        (
            sheets(&[("May", items), ("June", other)]),
            several(2, r#"["May", "June"]"#),
        ),
        (
            sheets(&[("June", items), ("Notes", notes)]),
            several(2, r#"["June", "Notes"]"#),
        ),
        (
            sheets(&[("items", items), ("Questions", other), ("-May", other)]),
            several(2, r#"["items", "Questions"]"#),
        ),
        (
            sheets(&[("Sheet1", &[]), ("-Items", items)]),
            "no sheet of the workbook has anything in it; sheets that are hidden are not read"
                .to_owned(),
        ),
    ] {
        assert_eq!(faults(&workbook, Format::Xlsx), [said]);
    }
}

#[test]
fn rejects_duplicate_fields() {
    let twice = |row| {
        format!(
            "row {row}, column session_id: has the field `session_id` twice in one object: keep one, or rename one (in SQL by AS); \
             rows may also be lists of cells beside the names of their columns"
        )
    };
    let lines = b"{\"session_id\":\"a\"}\n{\"session_id\":\"a\",\"force_rescore\":{\"x\":1},\"session_id\":\"b\"}\n";
    assert_eq!(faults(lines, Format::Jsonl), [twice(2)]);
    let list = b"[{\"session_id\":\"a\",\"session_id\":\"a\"}]";
    assert_eq!(faults(list, Format::Json), [twice(1)]);
}

#[test]
fn unknown_case_column_is_stored_as_note() {
    let file = b"test_id,question,Ticket No,empty\n1,?,0042,\n";
    let rows = rows_of(file, &ReadOptions::of_kind(Format::Csv, Kind::Qas));
    let fields = &rows[0].as_ref().unwrap().fields;
    assert_eq!(
        Value::Object(fields.clone()),
        json!({"test_id": "1", "question": "?", "Ticket No": "0042"})
    );
    let twice = rows_of(
        b"question,note,note\n",
        &ReadOptions::of_kind(Format::Csv, Kind::Qas),
    );
    let twice = twice[0].as_ref().unwrap_err().to_string();
    assert!(
        twice.contains("column note: is in the header more than once"),
        "{twice}"
    );
}

#[test]
fn empty_cell_of_agent_output_is_empty_text() {
    let csv = b"generated_kql,expected_kql,prompt\n,T,\nT,T,?\n";
    let xlsx = workbook(|sheet| {
        for (column, name) in (0..).zip(["generated_kql", "expected_kql", "prompt"]) {
            sheet.write(0, column, name).unwrap();
        }
        sheet.write(1, 1, "T").unwrap();
        sheet.write_row(2, 0, ["T", "T", "?"]).unwrap();
    });
    for (bytes, format) in [(&csv[..], Format::Csv), (&xlsx, Format::Xlsx)] {
        let rows = rows_of(bytes, &ReadOptions::of_kind(format, Kind::Query));
        let fields: Value = rows.into_iter().map(|row| row.unwrap().fields).collect();
        assert_eq!(
            fields,
            json!([
                {"generated_kql": "", "expected_kql": "T"},
                {"generated_kql": "T", "expected_kql": "T", "prompt": "?"},
            ])
        );
    }
}

#[test]
fn original_question_column_names_are_mapped() {
    let reading = ReadOptions::of_kind(Format::Csv, Kind::Qas);
    for (name, ours) in [("id", "test_id"), ("agent", "agent_used")] {
        let told = rows_of(format!("{name},question\n1,?\n").as_bytes(), &reading);
        let told = told[0].as_ref().unwrap_err().to_string();
        let said = format!("row 1, column {name}: is no field; did you mean `{ours}`?");
        assert_eq!(told, said);
    }
}

#[test]
fn xlsx_error_has_row_and_column() {
    let misspelled = workbook(|sheet| {
        sheet.write(0, 0, "sesion_id").unwrap();
    });
    assert_eq!(
        faults(&misspelled, Format::Xlsx),
        ["row 1, column sesion_id: is no field; did you mean `session_id`?"]
    );
    let beside = workbook(|sheet| {
        sheet.write(0, 0, "session_id").unwrap();
        sheet.write(3, 2, "x").unwrap();
    });
    assert_eq!(
        faults(&beside, Format::Xlsx),
        ["row 4, column 3: holds something, and the header has no name for it"]
    );
    assert_eq!(
        faults(&workbook(|_| {}), Format::Xlsx),
        ["no sheet of the workbook has anything in it; sheets that are hidden are not read"]
    );
    for hostile in [
        b"".as_slice(),
        b"PK",
        b"no workbook at all, but long enough for an end",
    ] {
        assert!(
            faults(hostile, Format::Xlsx)[0].contains("no XLSX workbook"),
            "{hostile:?}"
        );
    }
}

fn package(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ::zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in parts {
        let options = ::zip::write::SimpleFileOptions::default();
        archive.start_file(*name, options).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn sheet_of(rows: &str) -> Vec<u8> {
    let office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let packages = "http://schemas.openxmlformats.org/package/2006/relationships";
    let main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    let relation = |kind: &str, target: &str| {
        format!(
            "<Relationships xmlns=\"{packages}\"><Relationship Id=\"rId1\" Type=\"{office}/{kind}\" Target=\"{target}\"/></Relationships>"
        )
    };
    package(&[
        (
            "_rels/.rels",
            relation("officeDocument", "xl/workbook.xml").as_bytes(),
        ),
        (
            "xl/_rels/workbook.xml.rels",
            relation("worksheet", "worksheets/sheet1.xml").as_bytes(),
        ),
        (
            "xl/workbook.xml",
            format!(
                "<workbook xmlns=\"{main}\" xmlns:r=\"{office}\"><sheets><sheet name=\"S\" sheetId=\"1\" r:id=\"rId1\"/></sheets></workbook>"
            )
            .as_bytes(),
        ),
        (
            "xl/worksheets/sheet1.xml",
            format!("<worksheet xmlns=\"{main}\"><sheetData>{rows}</sheetData></worksheet>").as_bytes(),
        ),
    ])
}

#[test]
fn formula_without_value_is_rejected() {
    let sheet = |cell: &str| {
        sheet_of(&format!(
            "<row r=\"1\"><c r=\"A1\" t=\"inlineStr\"><is><t>session_id</t></is></c>\
             <c r=\"B1\" t=\"inlineStr\"><is><t>force_rescore</t></is></c></row>\
             <row r=\"2\"><c r=\"A2\"><v>7</v></c>{cell}</row>"
        ))
    };
    for cell in [
        "<c r=\"B2\"><f>A2&gt;5</f></c>",
        "<c r=\"B2\"><f>A2&gt;5</f><v></v></c>",
        "<c r=\"B2\"><f>A2&gt;5</f><v/></c>",
    ] {
        let found = faults(&sheet(cell), Format::Xlsx);
        assert!(
            found[0].starts_with(
                "row 2, column force_rescore: contains a formula without a stored value"
            ),
            "{cell}: {found:?}"
        );
    }
    for (cell, value) in [
        (
            "<c r=\"B2\" t=\"b\"><f>A2&gt;5</f><v>1</v></c>",
            json!({"session_id": "7", "force_rescore": true}),
        ),
        // The value exists, but isn't text.
        (
            "<c r=\"B2\" t=\"str\"><f>\"\"</f><v></v></c>",
            json!({"session_id": "7"}),
        ),
        ("<c r=\"B2\"/>", json!({"session_id": "7"})),
    ] {
        assert_eq!(
            payloads(&sheet(cell), Format::Xlsx),
            json!([value]),
            "{cell}"
        );
    }
}

#[test]
fn shared_text_counts_in_each_cell() {
    let bytes = workbook(|sheet| {
        sheet.write(0, 0, "session_id").unwrap();
        for row in 1..200 {
            sheet.write(row, 0, "x".repeat(30_000)).unwrap();
        }
    });
    let limits = Limits {
        file_bytes: 1 << 20,
        ..Limits::default()
    };
    let reading = ReadOptions {
        limits,
        ..reading(Format::Xlsx)
    };
    let found = rows_of(&bytes, &reading);
    let fault = found.last().unwrap().as_ref().unwrap_err().to_string();
    assert_eq!(
        fault,
        "the cells of the sheet \"Sheet1\" hold more than 1048576 bytes: split it"
    );
}

#[test]
fn rejects_zip_bomb_before_reading() {
    let texts = |text: &[u8]| package(&[("xl/SharedStrings.xml", text)]);
    let mut bomb = texts(&vec![b' '; 8 << 20]);
    assert!(bomb.len() < 64 << 10);
    assert!(faults(&bomb, Format::Xlsx)[0].contains("when it is unpacked"));
    // The same archive with a false declared size, which bounds inflation.
    let (declared, lie) = ((8_u32 << 20).to_le_bytes(), 1_u32.to_le_bytes());
    while let Some(at) = bomb.windows(4).position(|four| four == declared) {
        bomb[at..at + 4].copy_from_slice(&lie);
    }
    assert!(faults(&bomb, Format::Xlsx)[0].contains("no XLSX workbook"));
    for count in ["99999999999", "99999999999999999999999"] {
        let absurd = texts(format!("<?a?><x:sst b uniqueCount = '{count}'/>").as_bytes());
        let told = faults(&absurd, Format::Xlsx);
        assert!(told[0].contains("more than 10000000 texts"), "{told:?}");
    }
    let plain = faults(&texts(b"<sst uniqueCount=\"5\">"), Format::Xlsx);
    assert!(plain[0].contains("no XLSX workbook"), "{plain:?}");
}

fn weighed(parts: &[(&str, &[u8])]) -> Result<u64, SuiteError> {
    weight(
        Cursor::new(package(parts)),
        &ReadOptions::of_kind(Format::Xlsx, Kind::Session),
    )
}

#[test]
fn workbook_weight_ignores_declared_count() {
    let texts = |n: usize| format!("<sst>{}</sst>", "<si/>".repeat(n));
    let weight = |text: &str| weighed(&[("xl/sharedStrings.xml", text.as_bytes())]).unwrap();
    let empty = weight(&texts(0));
    assert!(
        weight(&texts(100_000)) - empty > 100_000 * 50,
        "24 bytes each, and room to grow"
    );
    let one = format!("<sst><si><t>{}</t></si></sst>", "x".repeat(500_000));
    assert!(
        weight(&one) - empty < 600 * 500_000,
        "one cell of it at most"
    );
}

#[test]
fn cell_length_limit_cannot_be_bypassed() {
    let long = "x".repeat(17 << 20);
    let runs = format!("<r><t>{}</t></r>", "x".repeat(1000)).repeat(20_000);
    for (sheet, fault) in [
        (
            format!("<sheetData><row><c><is><t>{long}"),
            "exceeds the maximum size of an item",
        ),
        (
            format!("<sheetData><row><c r='A1' t='inlineStr'><is>{runs}"),
            "exceeds the maximum size of an item",
        ),
        (
            format!("<sheetData><row><c><is><t>a<!-- </c> --><x/>{runs}"),
            "exceeds the maximum size of an item",
        ),
        (
            format!("<sheetData><row><c a='</c>'><is>{runs}"),
            "exceeds the maximum size of an item",
        ),
        (
            "<sheetData><row><c><is><t>a</c><c><is><t>".to_owned(),
            "no XLSX workbook",
        ),
        (
            format!("<sheetData><row><c>{}", "<r>".repeat(17)),
            "no XLSX workbook",
        ),
    ] {
        // Any path of the sheet in the workbook.
        for name in ["xl/worksheets/sheet1.xml", "xl/media/picture.png"] {
            let found = weighed(&[(name, sheet.as_bytes())]).unwrap_err();
            assert!(
                found.message.contains(fault),
                "{}: {found}",
                &sheet[..sheet.len().min(40)]
            );
        }
    }
    for other in [
        "<!-- a note --><svg/>",
        "<a><![CDATA[x]]></a>",
        "\u{0}\u{1}<\"'<",
    ] {
        assert!(
            weighed(&[("customXml/item1.xml", other.as_bytes())]).is_ok(),
            "{other}"
        );
    }
}

#[test]
fn rejects_item_with_too_many_values() {
    let lists = format!("{{\"session_id\": [{}[]]}}", "[],".repeat(2_000));
    let text = format!("{{\"session_id\": \"{}\"}}", "[".repeat(lists.len() - 20));
    let limits = Limits {
        item_weight: 1 << 20,
        ..Limits::default()
    };
    for (format, around) in [(Format::Jsonl, ["", ""]), (Format::Json, ["[", "]"])] {
        let reading = ReadOptions {
            limits,
            ..reading(format)
        };
        let file = |item: &str| around.join(item).into_bytes();
        let weight = |item: &str| weight(Cursor::new(file(item)), &reading).unwrap();
        assert!(weight(&lists) > 1 << 20);
        let refused = rows_of(&file(&lists), &reading).remove(0).unwrap_err();
        assert!(refused.message.contains("too many values"), "{refused}");
        assert!(rows_of(&file(&text), &reading)[0].is_ok());
    }
    let cell = format!("session_id\n\"[{}[]]\"\n", "[],".repeat(2_000));
    let reading = ReadOptions {
        limits,
        ..reading(Format::Csv)
    };
    assert!(weight(Cursor::new(cell.into_bytes()), &reading).unwrap() > 1 << 20);
}

#[test]
fn rejects_too_large_file() {
    let reading = ReadOptions {
        limits: Limits {
            file_bytes: 10,
            ..SMALL
        },
        ..reading(Format::Jsonl)
    };
    let found = rows_of(&[b'\n'; 11], &reading);
    assert!(
        found[0]
            .as_ref()
            .unwrap_err()
            .message
            .contains("at most 10")
    );
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic_or_hang(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for format in [Format::Json, Format::Jsonl, Format::Csv, Format::Xlsx] {
            let rows = rows_of(&bytes, &ReadOptions { limits: SMALL, ..reading(format) });
            prop_assert!(rows.len() <= bytes.len() + 2);
        }
    }

    #[test]
    fn written_json_reads_back(texts in proptest::collection::vec(".{0,40}", 1..5)) {
        let items: Value = texts.iter().map(|text| json!({"session_id": text})).collect();
        prop_assert_eq!(payloads(items.to_string().as_bytes(), Format::Json), items.clone());
        let lines: String = items.as_array().unwrap().iter().map(|item| format!("{item}\n")).collect();
        prop_assert_eq!(payloads(lines.as_bytes(), Format::Jsonl), items);
    }
}
