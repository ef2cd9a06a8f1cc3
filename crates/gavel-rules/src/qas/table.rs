//! The rows of an answer, in the forms in which programs hand out tables: as the drivers of databases, pandas and HTTP APIs write them. A form is told
//! by its fields and never by what cells say.

use serde_json::{Map, Value, json};

use row_match::{Table, TableError};

/// What rows may be called beside the names of their columns, or beside values that describe them. Case doesn't count.
const ROWS: [&str; 7] = [
    "rows",
    "data",
    "records",
    "results",
    "result",
    "data_array",
    "resultset",
];
/// What the names of columns may be called, or an object that holds them. Case doesn't count.
const COLUMNS: [&str; 11] = [
    "columns",
    "column_names",
    "colnames",
    "fields",
    "schema",
    "manifest",
    "meta",
    "metadata",
    "resultsetmetadata",
    "columninfo",
    "rowtype",
];
/// How many objects and lists of objects around a table are opened.
const WRAPPERS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowsForm {
    Empty,
    /// Objects, or lists whose columns have names.
    Named,
    /// Lists whose columns have no names.
    Lists,
    Values,
    /// An object that is one row.
    One,
}

/// A table in one form: rows are lists of cells or objects.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AnswerTable {
    pub(super) form: RowsForm,
    /// The names of the columns, as far as they stand beside the rows.
    columns: Vec<String>,
    pub(super) rows: Vec<Value>,
}

impl AnswerTable {
    /// The rows of an answer; values are rows of one cell. `None` if it has none.
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Array(entries) => {
                let table = in_one_object(entries);
                Some(table.unwrap_or_else(|| Self::of_list(entries, Vec::new())))
            }
            Value::Object(members) => Some(Self::of_object(members).unwrap_or_else(|| Self {
                form: RowsForm::One,
                columns: Vec::new(),
                rows: vec![value.clone()],
            })),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }

    /// The table to be compared.
    pub(super) fn table(&self) -> Result<Table, TableError> {
        Table::from_values(&self.rows, Some(&self.columns))
    }

    /// Whether it has one column.
    pub(super) fn has_one_column(&self) -> bool {
        self.table().is_ok_and(|table| table.names().len() == 1)
    }

    fn of_list(entries: &[Value], columns: Vec<String>) -> Self {
        let form = if entries.is_empty() {
            RowsForm::Empty
        } else if entries.iter().all(Value::is_object) {
            RowsForm::Named
        } else if !entries
            .iter()
            .all(|entry| entry.is_object() || entry.is_array())
        {
            RowsForm::Values
        } else if columns.is_empty() {
            RowsForm::Lists
        } else {
            RowsForm::Named
        };
        let rows = match form {
            RowsForm::Values => entries.iter().map(|cell| json!([cell])).collect(),
            RowsForm::Empty | RowsForm::Named | RowsForm::Lists | RowsForm::One => entries.to_vec(),
        };
        Self {
            form,
            columns,
            rows,
        }
    }

    /// The table that an object holds. `None` if the object is a row itself, as far as one can tell.
    pub(super) fn of_object(members: &Map<String, Value>) -> Option<Self> {
        let nested = || {
            let mut tables = Vec::new();
            nested(members, WRAPPERS, &mut tables);
            <[Self; 1]>::try_from(tables).ok().map(|[table]| table)
        };
        enveloped(members, None)
            .or_else(|| of_columns(members))
            .or_else(|| of_labelled_rows(members))
            .or_else(nested)
    }

    /// Whether objects may be forms of tables that aren't known: one object with lists or objects, or several with lists of rows.
    pub(super) fn is_of_unknown_form(&self) -> bool {
        let members = self.rows.iter().filter_map(Value::as_object);
        let mut values = members.flat_map(Map::values);
        let is_one = self.form == RowsForm::One;
        values.any(|value| {
            if is_one {
                !is_plain(value)
            } else {
                is_rows(value)
            }
        })
    }

    /// Puts the labels of pandas' rows before their cells, unless they only count the rows.
    fn labelled(mut self, name: &str, labels: &[Value]) -> Self {
        if labels.len() != self.rows.len() || counts_up(labels.iter()) {
            return self;
        }
        for (row, label) in self.rows.iter_mut().zip(labels) {
            match row {
                Value::Array(cells) => cells.insert(0, label.clone()),
                Value::Object(members) => {
                    members.entry(name).or_insert_with(|| label.clone());
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        self.columns.insert(0, name.to_owned());
        self
    }
}

/// Rows beside the names of their columns (`{columns, rows, row_count}`, pandas' `split`, `tight` and `table`, ClickHouse's JSON), or the one
/// list of rows in the object (`{data, metadata}`); also within another object (`{status, data: {columns, rows}}`), which the names of columns
/// may stand beside (Databricks).
fn enveloped(
    members: &Map<String, Value>,
    outer_columns: Option<Vec<String>>,
) -> Option<AnswerTable> {
    let named = || ROWS.iter().filter_map(|name| member(members, name));
    let columns = names_in(members).or(outer_columns);
    let has_columns = columns.is_some();
    let named = || {
        let values = has_columns.then(|| member(members, "values")).flatten();
        named().chain(values)
    };
    let is_only_list = |own: &str| {
        let mut others = members.iter().filter(|(name, _)| *name != own);
        has_columns || !others.any(|(_, value)| is_rows(value))
    };
    let Some((name, rows)) = named().find_map(|(name, rows)| Some((name, rows.as_array()?))) else {
        let mut inner = named().filter(|(name, _)| is_only_list(name));
        return inner.find_map(|(_, inner)| enveloped(inner.as_object()?, columns.clone()));
    };
    if columns.is_none()
        && is_only_list(name)
        && let Some(table) = in_one_object(rows)
    {
        return Some(table);
    }
    let unwrapped = unwrapped(rows, columns.as_deref());
    let (rows, columns) = match &unwrapped {
        Some((header, rows)) => (rows, header.clone().or(columns)),
        None => (rows, columns),
    };
    let holds_values = rows.iter().any(is_plain);
    let is_table = match &columns {
        Some(columns) => columns.len() == 1 || !holds_values,
        None => is_only_list(name) && (members.len() == 1 || !holds_values),
    };
    if !is_table {
        return None;
    }
    let mut table = AnswerTable::of_list(rows, columns.unwrap_or_default());
    if table.columns.first().is_some_and(|name| name == "index") && members.contains_key("schema") {
        let labels: Option<Vec<&Value>> = rows.iter().map(|row| row.get("index")).collect();
        if labels.is_some_and(|labels| counts_up(labels.into_iter())) {
            table.columns.remove(0);
            let objects = table.rows.iter_mut().filter_map(Value::as_object_mut);
            objects.for_each(|row| drop(row.shift_remove("index")));
        }
    }
    let labels = members.get("index").and_then(Value::as_array);
    Some(match labels {
        Some(labels) => {
            let name = members
                .get("index_names")
                .and_then(|names| names.get(0)?.as_str());
            table.labelled(name.unwrap_or("index"), labels)
        }
        None => table,
    })
}

/// The table of a list's only entry: an object with the names of the columns, or with rows and without numbers and texts, which may be cells.
fn in_one_object(entries: &[Value]) -> Option<AnswerTable> {
    let [Value::Object(members)] = entries else {
        return None;
    };
    let is_cell = |value: &Value| value.is_number() || value.is_string();
    let has_rows = members.values().any(is_rows) && !members.values().any(is_cell);
    let mut tables = Vec::new();
    match enveloped(members, None) {
        Some(table) if has_rows || !table.columns.is_empty() => return Some(table),
        Some(_) | None => nested(members, WRAPPERS, &mut tables),
    }
    let [table] = <[AnswerTable; 1]>::try_from(tables).ok()?;
    (!table.columns.is_empty()).then_some(table)
}

/// The member of a name, whatever its case.
fn member<'v>(members: &'v Map<String, Value>, name: &str) -> Option<(&'v str, &'v Value)> {
    let mut members = members.iter();
    let (name, value) = members.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some((name, value))
}

/// The rows of BigQuery (`{f: [{v}]}`) and Athena (`{Data: [{VarCharValue}]}`, `{}` for NULL) as lists of cells. The first row of Athena is a
/// header: returned as the names of the columns, unless they are known and differ.
fn unwrapped(
    rows: &[Value],
    columns: Option<&[String]>,
) -> Option<(Option<Vec<String>>, Vec<Value>)> {
    let is_athena = rows.first()?.get("Data").is_some();
    let (list, key) = if is_athena {
        ("Data", "VarCharValue")
    } else {
        ("f", "v")
    };
    let cell = |cell: &Value| match (cell.get(key), cell.as_object()?.len()) {
        (Some(value), 1) => Some(value.clone()),
        (None, 0) => Some(Value::Null),
        (Some(_) | None, _) => None,
    };
    let row = |row: &Value| {
        let members = row.as_object().filter(|members| members.len() == 1)?;
        let cells = members.get(list)?.as_array()?.iter().map(cell);
        cells.collect::<Option<Vec<Value>>>().map(Value::Array)
    };
    let mut rows: Vec<Value> = rows.iter().map(row).collect::<Option<_>>()?;
    let header = names(rows.first()?).filter(|_| is_athena);
    let header = header.filter(|header| columns.is_none_or(|columns| columns == header));
    if header.is_some() {
        rows.remove(0);
    }
    Some((header, rows))
}

/// Tables within objects and lists of objects (`{tables: [{columns, rows}]}` of Kusto): with the names of their columns, or as all there is.
fn nested(members: &Map<String, Value>, depth: usize, tables: &mut Vec<AnswerTable>) {
    let is_all = members.len() == 1;
    for value in members.values().filter(|_| depth > 0) {
        let list = value
            .as_array()
            .map_or(std::slice::from_ref(value), Vec::as_slice);
        for inner in list.iter().filter_map(Value::as_object) {
            match enveloped(inner, None) {
                Some(table) if is_all || !table.columns.is_empty() => tables.push(table),
                Some(_) | None => nested(inner, depth - 1, tables),
            }
        }
    }
}

/// The names of columns in a member of an object.
fn names_in(members: &Map<String, Value>) -> Option<Vec<String>> {
    let mut known = COLUMNS.iter();
    known.find_map(|name| names(member(members, name)?.1))
}

/// The names in a list of names, of objects with a `name`, or of such a list in an object.
fn names(columns: &Value) -> Option<Vec<String>> {
    if let Value::Object(members) = columns {
        return names_in(members);
    }
    let list = columns.as_array()?.iter();
    let name = |column: &Value| match column {
        Value::Object(column) => {
            let mut keys = ["name", "columnname"].into_iter();
            let (_, name) = keys.find_map(|key| member(column, key))?;
            name.as_str().map(str::to_owned)
        }
        Value::String(name) => Some(name.clone()),
        // Columns of pandas without names.
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) => None,
    };
    list.map(name).collect()
}

/// Columns by name: lists of cells of one length, or cells by the labels of their rows (`to_dict` and `to_json` of pandas).
fn of_columns(members: &Map<String, Value>) -> Option<AnswerTable> {
    let (_, first) = members.iter().next()?;
    let counted = first.as_object().is_some_and(has_counting_keys);
    let columns = members.values().map(|column| {
        if let Some(cells) = column.as_array() {
            return cells.iter().all(is_plain).then(|| cells.iter().collect());
        }
        let cells = column.as_object().filter(|_| counted)?;
        let is_alike = cells.keys().eq(first.as_object()?.keys());
        is_alike.then(|| cells.values().collect())
    });
    let columns: Vec<Vec<&Value>> = columns.collect::<Option<_>>()?;
    let length = columns.first()?.len();
    if columns.iter().any(|column| column.len() != length) {
        return None;
    }
    let rows = (0..length).map(|row| columns.iter().map(|column| column[row].clone()).collect());
    Some(AnswerTable {
        form: if length == 0 {
            RowsForm::Empty
        } else {
            RowsForm::Named
        },
        columns: members.keys().cloned().collect(),
        rows: rows.collect(),
    })
}

/// Rows by the numbers that count them: `index` of pandas.
fn of_labelled_rows(members: &Map<String, Value>) -> Option<AnswerTable> {
    let is_table = has_counting_keys(members) && members.values().all(Value::is_object);
    is_table.then(|| {
        let rows: Vec<Value> = members.values().cloned().collect();
        AnswerTable::of_list(&rows, Vec::new())
    })
}

/// Whether labels are 0, 1, 2 and so on, as numbers or as text.
fn counts_up<'v>(labels: impl Iterator<Item = &'v Value>) -> bool {
    labels.enumerate().all(|(at, label)| match label {
        Value::Number(number) => number.as_u64() == Some(at as u64),
        Value::String(text) => *text == at.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    })
}

/// Whether a value is a list of rows.
fn is_rows(value: &Value) -> bool {
    let entries = value.as_array().map(Vec::as_slice).unwrap_or_default();
    !entries.is_empty() && !entries.iter().any(is_plain)
}

/// Whether the keys are 0, 1, 2 and so on.
fn has_counting_keys(members: &Map<String, Value>) -> bool {
    let mut keys = members.keys().enumerate();
    !members.is_empty() && keys.all(|(at, key)| *key == at.to_string())
}

fn is_plain(value: &Value) -> bool {
    !value.is_array() && !value.is_object()
}

/// A text that is a table in Markdown and nothing else, as `{columns, index, rows}`; an empty cell is null.
pub(super) fn of_markdown(text: &str) -> Option<Value> {
    let mut lines = text.trim().lines().map(cells);
    let (names, rule) = (lines.next()??, lines.next()??);
    let is_rule = |cell: &String| {
        let dashes = cell.trim_matches(':');
        !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-')
    };
    let rows: Vec<Vec<String>> = lines.collect::<Option<_>>()?;
    let width = names.len();
    if !rule.iter().all(is_rule) || rule.len() != width || rows.iter().any(|row| row.len() != width)
    {
        return None;
    }
    let cell = |text: String| {
        (!text.is_empty())
            .then_some(text)
            .map_or(Value::Null, Value::from)
    };
    let rows = rows
        .into_iter()
        .map(|row| row.into_iter().map(cell).collect());
    let rows: Vec<Vec<Value>> = rows.collect();
    // pandas writes the labels of rows into a column without a name.
    let without_labels =
        usize::from(names[0].is_empty() && counts_up(rows.iter().map(|row| &row[0])));
    let rows: Vec<&[Value]> = rows.iter().map(|row| &row[without_labels..]).collect();
    Some(json!({ "columns": names[without_labels..], "rows": rows }))
}

/// The cells of a line of a table in Markdown; `\|` is no end of one.
fn cells(line: &str) -> Option<Vec<String>> {
    let line = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let mut cells = vec![String::new()];
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, cells.last_mut()) {
            ('\\', Some(cell)) if chars.peek() == Some(&'|') => cell.extend(chars.next()),
            ('|', _) => cells.push(String::new()),
            (c, Some(cell)) => cell.push(c),
            (_, None) => {}
        }
    }
    Some(cells.iter().map(|cell| cell.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of a form as objects by the normal names of their columns.
    fn rows_of(text: &str) -> Value {
        let value = crate::qas::answer::opened(&Value::from(text))
            .unwrap()
            .into_owned();
        let table = AnswerTable::of(&value).unwrap();
        let rows = table.rows.iter().map(|row| {
            let names = table.columns.iter().cloned();
            match row.as_array() {
                Some(cells) => Value::Object(names.zip(cells.iter().cloned()).collect()),
                None => row.clone(),
            }
        });
        rows.collect()
    }

    #[test]
    fn tables_of_pandas_are_read_in_every_orientation() {
        let rows = json!([{"name": "Ada", "n": 3}, {"name": "Bo", "n": 2}]);
        // to_json, to_dict and to_markdown of pandas 3.0
        for text in [
            r#"{"columns":["name","n"],"index":[0,1],"data":[["Ada",3],["Bo",2]]}"#,
            r#"[{"name":"Ada","n":3},{"name":"Bo","n":2}]"#,
            r#"{"0":{"name":"Ada","n":3},"1":{"name":"Bo","n":2}}"#,
            r#"{"name":{"0":"Ada","1":"Bo"},"n":{"0":3,"1":2}}"#,
            r#"{"schema":{"fields":[{"name":"index","type":"integer"},{"name":"name","type":"string","extDtype":"str"},{"name":"n","type":"integer"}],"primaryKey":["index"],"pandas_version":"1.4.0"},"data":[{"index":0,"name":"Ada","n":3},{"index":1,"name":"Bo","n":2}]}"#,
            "{'name': {0: 'Ada', 1: 'Bo'}, 'n': {0: 3, 1: 2}}",
            "{'name': ['Ada', 'Bo'], 'n': [3, 2]}",
            "{'index': [0, 1], 'columns': ['name', 'n'], 'data': [['Ada', 3], ['Bo', 2]], 'index_names': [None], 'column_names': [None]}",
            "{0: {'name': 'Ada', 'n': 3}, 1: {'name': 'Bo', 'n': 2}}",
        ] {
            assert_eq!(rows_of(text), rows, "{text}");
        }
        // A label that says something is a cell.
        let labelled = r#"{"columns":["n"],"index":["Ada","Bo"],"data":[[3],[2]]}"#;
        assert_eq!(
            rows_of(labelled),
            json!([{"index": "Ada", "n": 3}, {"index": "Bo", "n": 2}])
        );
    }

    #[test]
    fn tables_of_apis_and_drivers_are_read() {
        let rows = json!([{"name": "Ada", "n": 3}]);
        for text in [
            r#"{"columns":["name","n"],"rows":[["Ada",3]],"row_count":1,"execution_time_ms":1.5}"#,
            r#"{"rows":[{"name":"Ada","n":3}]}"#,
            r#"{"success":true,"data":[{"name":"Ada","n":3}],"error":null}"#,
            // node-postgres, and ClickHouse's FORMAT JSON and JSONCompact
            r#"{"command":"SELECT","rowCount":1,"rows":[{"name":"Ada","n":3}],"fields":[{"name":"name","dataTypeID":25},{"name":"n","dataTypeID":23}]}"#,
            r#"{"meta":[{"name":"name","type":"String"},{"name":"n","type":"UInt8"}],"data":[{"name":"Ada","n":3}],"rows":1,"statistics":{"elapsed":0.1}}"#,
            r#"{"meta":[{"name":"name","type":"String"},{"name":"n","type":"UInt8"}],"data":[["Ada",3]],"rows":1}"#,
            // Rows beside what describes them
            r#"{"data":[{"name":"Ada","n":3}],"metadata":{"took_ms":3,"warnings":["slow"]}}"#,
            r#"{"metadata":{"columns":["name","n"],"row_count":1},"data":[["Ada",3]]}"#,
            r#"{"results":[{"name":"Ada","n":3}],"pagination":{"page":1},"links":["/next"]}"#,
            r#"{"status":"ok","data":{"columns":["name","n"],"rows":[["Ada",3]]}}"#,
            r#"{"data":{"records":[{"name":"Ada","n":3}]},"metadata":{}}"#,
            // Snowflake's SQL API
            r#"{"resultSetMetaData":{"numRows":1,"rowType":[{"name":"name","type":"text"},{"name":"n","type":"fixed"}]},"data":[["Ada",3]],"code":"090001"}"#,
            // Kusto and Log Analytics (v1 and v2), with statistics
            r#"{"Tables":[{"TableName":"Table_0","Columns":[{"ColumnName":"name","DataType":"String"},{"ColumnName":"n","DataType":"Int32"}],"Rows":[["Ada",3]]}]}"#,
            r#"{"tables":[{"name":"PrimaryResult","columns":[{"name":"name","type":"string"},{"name":"n","type":"long"}],"rows":[["Ada",3]]}],"statistics":{"query":{"executionTime":0.1}}}"#,
            // Databricks' statement execution API
            r#"{"statement_id":"1","status":{"state":"SUCCEEDED"},"manifest":{"format":"JSON_ARRAY","schema":{"column_count":2,"columns":[{"name":"name","position":0},{"name":"n","position":1}]},"total_row_count":1,"chunks":[{"chunk_index":0}]},"result":{"chunk_index":0,"row_count":1,"data_array":[["Ada",3]]}}"#,
            // Athena's GetQueryResults and BigQuery's jobs.query
            r#"{"UpdateCount":0,"ResultSet":{"Rows":[{"Data":[{"VarCharValue":"name"},{"VarCharValue":"n"}]},{"Data":[{"VarCharValue":"Ada"},{"VarCharValue":3}]}],"ResultSetMetadata":{"ColumnInfo":[{"Name":"name","Type":"varchar"},{"Name":"n","Type":"bigint"}]}}}"#,
            r#"{"ResultSet":{"Rows":[{"Data":[{"VarCharValue":"name"},{"VarCharValue":"n"}]},{"Data":[{"VarCharValue":"Ada"},{"VarCharValue":3}]}]}}"#,
            r#"{"kind":"bigquery#queryResponse","schema":{"fields":[{"name":"name","type":"STRING"},{"name":"n","type":"INTEGER"}]},"rows":[{"f":[{"v":"Ada"},{"v":3}]}],"totalRows":"1","jobComplete":true}"#,
            // Redash
            r#"{"query_result":{"id":1,"data":{"columns":[{"name":"name","friendly_name":"name"},{"name":"n"}],"rows":[{"name":"Ada","n":3}]},"runtime":0.1}}"#,
            r#"{"response":{"rows":[{"name":"Ada","n":3}]}}"#,
            // Cloudflare's D1, InfluxDB 1, sql.js, and Superset's SQL Lab and charts
            r#"[{"results":[{"name":"Ada","n":3}],"success":true,"meta":{"duration":0.2,"rows_read":1}}]"#,
            r#"{"result":[{"results":[{"name":"Ada","n":3}],"success":true,"meta":{}}],"success":true,"errors":[],"messages":[]}"#,
            r#"{"results":[{"statement_id":0,"series":[{"name":"cpu","columns":["name","n"],"values":[["Ada",3]]}]}]}"#,
            r#"[{"columns":["name","n"],"values":[["Ada",3]]}]"#,
            r#"{"status":"success","data":[{"name":"Ada","n":3}],"columns":[{"column_name":"name","name":"name","type":"STRING"},{"column_name":"n","name":"n","type":"LONG"}],"selected_columns":[{"column_name":"name","name":"name"},{"column_name":"n","name":"n"}],"expanded_columns":[]}"#,
            r#"{"result":[{"cache_key":"x","data":[{"name":"Ada","n":3}],"colnames":["name","n"],"indexnames":[0],"coltypes":[1,0],"rowcount":1,"applied_filters":[],"rejected_filters":[]}]}"#,
            // A tool's result of MCP
            r#"{"content":[{"type":"text","text":"[{\"name\": \"Ada\", \"n\": 3}]"}],"isError":false}"#,
            // In a fence
            "```json\n[{\"name\": \"Ada\", \"n\": 3}]\n```",
            "```\n{\"columns\": [\"name\", \"n\"], \"rows\": [[\"Ada\", 3]]}\n```",
            "~~~python\n[{'name': 'Ada', 'n': 3}]\n~~~",
        ] {
            assert_eq!(rows_of(text), rows, "{text}");
        }
    }

    #[test]
    fn a_table_in_markdown_is_read() {
        for (text, rows) in [
            // sqlite3 -markdown
            (
                "| name | n |\n|------|---|\n| Ada  | 3 |\n|      | 2 |\n",
                json!([{"name": "Ada", "n": "3"}, {"name": null, "n": "2"}]),
            ),
            // to_markdown of pandas
            (
                "|    | name   |   n |\n|---:|:-------|----:|\n|  0 | Ada    |   3 |",
                json!([{"name": "Ada", "n": "3"}]),
            ),
            (
                r"| a |
|:-:|
| x\|y |",
                json!([{"a": "x|y"}]),
            ),
        ] {
            assert_eq!(rows_of(text), rows, "{text}");
        }
        for text in [
            "| a |",
            "| a |\n| b |",
            "see:\n| a |\n|---|",
            "| a |\n|---|\n| 1 | 2 |",
            "|",
            "",
        ] {
            assert_eq!(of_markdown(text), None, "{text}");
        }
    }

    #[test]
    fn rows_come_in_many_forms() {
        for (value, form) in [
            (json!([]), Some(RowsForm::Empty)),
            (json!([{}]), Some(RowsForm::Named)),
            (json!([[1], { "a": 1 }]), Some(RowsForm::Lists)),
            (json!([1, [2]]), Some(RowsForm::Values)),
            (
                json!({ "columns": ["a"], "data": [[1]] }),
                Some(RowsForm::Named),
            ),
            (
                json!({ "columns": ["a"], "rows": [] }),
                Some(RowsForm::Empty),
            ),
            (json!({ "rows": [["Ada", 3]] }), Some(RowsForm::Lists)),
            (
                json!({ "a": [1, 2], "b": ["x", "y"] }),
                Some(RowsForm::Named),
            ),
            // Rows themselves, as far as one can tell.
            (json!({ "a": 1 }), Some(RowsForm::One)),
            (
                json!({ "Ada": { "n": 3 }, "Bo": { "n": 2 } }),
                Some(RowsForm::One),
            ),
            (
                json!({ "name": "Ada", "data": [1, 2] }),
                Some(RowsForm::One),
            ),
            (json!({ "a": [1, 2], "b": ["x"] }), Some(RowsForm::One)),
            // Which of two lists of rows is the answer isn't known.
            (
                json!({ "data": [{ "a": 1 }], "orders": [{ "b": 1 }] }),
                Some(RowsForm::One),
            ),
            (
                json!({ "data": [{ "a": 1 }], "results": [{ "b": 1 }] }),
                Some(RowsForm::One),
            ),
            (
                json!({ "data": { "rows": [[1]] }, "orders": [{ "b": 1 }] }),
                Some(RowsForm::One),
            ),
            (json!({ "data": { "a": 1 } }), Some(RowsForm::One)),
            (
                json!({ "tables": [{ "columns": ["a"], "rows": [[1]] }, { "columns": ["b"], "rows": [[1]] }] }),
                Some(RowsForm::One),
            ),
            (
                json!({ "name": "Ada", "orders": { "rows": [[1]] } }),
                Some(RowsForm::One),
            ),
            (
                json!({ "rows": [{ "f": [{ "v": null }] }, { "f": [{ "v": 1 }] }] }),
                Some(RowsForm::Lists),
            ),
            (
                json!({ "ResultSet": { "Rows": [{ "Data": [{ "VarCharValue": "a" }] }, { "Data": [{}] }] } }),
                Some(RowsForm::Named),
            ),
            (
                json!({ "content": [{ "type": "text", "text": "[]" }], "isError": true }),
                Some(RowsForm::One),
            ),
            // A row with a cell that is a list, and results of two statements
            (
                json!([{ "name": "Ada", "data": [1, 2] }]),
                Some(RowsForm::Named),
            ),
            (json!([{ "data": [1, 2] }]), Some(RowsForm::Named)),
            (
                json!([{ "id": 1, "data": [{ "a": 1 }] }]),
                Some(RowsForm::Named),
            ),
            (
                json!([{ "results": [{ "a": 1 }] }, { "results": [{ "a": 1 }] }]),
                Some(RowsForm::Named),
            ),
            (json!({}), Some(RowsForm::One)),
            (json!("x"), None),
            (json!(null), None),
        ] {
            let found = AnswerTable::of(&value).map(|table| table.form);
            assert_eq!(found, form, "{value}");
        }
    }
}
