//! Parses Python literals such as `[('Ada', Decimal('1.20'), datetime.date(2026, 3, 2), None)]`. Agent frameworks pass the rows of a
//! database driver in this form. Executes no code, and rejects text that isn't completely such a literal.

use serde_json::{Map, Value};

const MAX_DEPTH: usize = 64;

/// Parses a list, tuple, dict or call. `None` for any other text.
///
/// A tuple becomes a list; `None`, `nan` and `NaT` become null. Dates and times are formatted as ISO 8601, a `timedelta` in hours, minutes
/// and seconds. Other calls with one argument (`Decimal('1.2')`, `UUID('..')`, `Timestamp('..')`, `np.int64(3)`) become that argument.
/// Calls with named arguments (`Row(name='Ada')`) become an object.
pub fn parse_python(text: &str) -> Option<Value> {
    let mut literal = Literal {
        rest: text.trim(),
        depth: 0,
    };
    let begins = literal.rest.starts_with(['[', '(', '{', '_']) || literal.rest.ends_with(')');
    // A value in parentheses is no tuple.
    let must_be_tuple = literal.rest.starts_with('(');
    let value = begins.then(|| literal.value()).flatten()?;
    let is_literal = literal.rest.trim().is_empty() && (value.is_array() || !must_be_tuple);
    is_literal.then_some(value)
}

struct Literal<'a> {
    rest: &'a str,
    depth: usize,
}

#[derive(Default)]
struct Arguments {
    listed: Vec<Value>,
    named: Map<String, Value>,
}

impl<'a> Literal<'a> {
    fn value(&mut self) -> Option<Value> {
        self.rest = self.rest.trim_start();
        let first = self.rest.chars().next()?;
        match first {
            '[' => Some(Value::Array(self.nested(']')?.0)),
            '(' => {
                let (mut entries, is_tuple) = self.nested(')')?;
                match (is_tuple, entries.len()) {
                    (false, 1) => entries.pop(),
                    _ => Some(Value::Array(entries)),
                }
            }
            '{' => self.dict(),
            '\'' | '"' => self.string().map(Value::String),
            '-' | '.' | '0'..='9' => self.number(),
            _ => self.name(),
        }
    }

    fn accept(&mut self, sign: char) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Parses the entries up to the closing bracket. Also returns whether they contain a comma.
    fn nested(&mut self, close: char) -> Option<(Vec<Value>, bool)> {
        self.open_bracket()?;
        let (mut entries, mut has_comma) = (Vec::new(), false);
        while !self.accept(close) {
            entries.push(self.value()?);
            let comma = self.accept(',');
            has_comma |= comma;
            if !comma && !self.rest.trim_start().starts_with(close) {
                return None;
            }
        }
        self.depth -= 1;
        Some((entries, has_comma))
    }

    fn open_bracket(&mut self) -> Option<()> {
        self.rest = self.rest.get(1..)?;
        self.depth += 1;
        (self.depth <= MAX_DEPTH).then_some(())
    }

    fn dict(&mut self) -> Option<Value> {
        self.open_bracket()?;
        let mut members = Map::new();
        while !self.accept('}') {
            let key = match self.value()? {
                Value::String(text) => text,
                Value::Array(_) | Value::Object(_) => return None,
                plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain.to_string(),
            };
            if !self.accept(':') || members.insert(key, self.value()?).is_some() {
                return None;
            }
            if !self.accept(',') && !self.rest.starts_with('}') {
                return None;
            }
        }
        self.depth -= 1;
        Some(Value::Object(members))
    }

    fn string(&mut self) -> Option<String> {
        let quote = self.rest.chars().next()?;
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            if c == quote {
                self.rest = &self.rest[at + 1..];
                return Some(text);
            }
            if c != '\\' {
                text.push(c);
                continue;
            }
            let (_, escaped) = chars.next()?;
            let mut code = |digits| {
                let code: String = chars.by_ref().take(digits).map(|(_, c)| c).collect();
                char::from_u32(u32::from_str_radix(&code, 16).ok()?)
            };
            text.push(match escaped {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'x' => code(2)?,
                'u' => code(4)?,
                'U' => code(8)?,
                other => other,
            });
        }
        None
    }

    fn number(&mut self) -> Option<Value> {
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        if number == "-" && rest.starts_with("inf") {
            self.rest = &rest[3..];
            return Some(Value::from("-Infinity"));
        }
        self.rest = rest;
        number.parse::<f64>().ok()?;
        // NumPy writes `1.` and `.5`, but Python doesn't.
        let json = |text: &str| serde_json::from_str::<Value>(text).ok();
        let whole = number
            .trim_start_matches('-')
            .bytes()
            .all(|b| b.is_ascii_digit());
        match json(number) {
            // The integer has no exact float.
            Some(Value::Number(read)) if whole && read.is_f64() => Some(Value::from(number)),
            Some(read) => Some(read),
            None => number.parse().ok().map(|number: f64| Value::from(number)),
        }
    }

    fn name(&mut self) -> Option<Value> {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        if matches!(name, "b" | "r" | "u") && rest.starts_with(['\'', '"']) {
            self.rest = rest;
            return self.string().map(Value::String);
        }
        self.rest = rest;
        if rest.starts_with('(') {
            let arguments = self.arguments()?;
            return call(name.rsplit('.').next()?, arguments);
        }
        Some(match name {
            "True" | "np.True_" => Value::Bool(true),
            "False" | "np.False_" => Value::Bool(false),
            "None" | "nan" | "NaN" | "NaT" => Value::Null,
            "inf" => Value::from("Infinity"),
            "datetime.timezone.utc" => Value::from("UTC"),
            _ => return None,
        })
    }

    fn arguments(&mut self) -> Option<Arguments> {
        self.open_bracket()?;
        let mut arguments = Arguments::default();
        while !self.accept(')') {
            self.rest = self.rest.trim_start();
            let named = self.rest.split_once('=').filter(|(name, _)| {
                !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
            });
            match named {
                Some((name, rest)) => {
                    self.rest = rest;
                    let value = self.value()?;
                    arguments.named.insert(name.to_owned(), value);
                }
                None => arguments.listed.push(self.value()?),
            }
            if !self.accept(',') && !self.rest.starts_with(')') {
                return None;
            }
        }
        self.depth -= 1;
        Some(arguments)
    }
}

fn call(
    name: &str,
    Arguments {
        mut listed,
        mut named,
    }: Arguments,
) -> Option<Value> {
    let numbers =
        |values: &[Value]| -> Option<Vec<i64>> { values.iter().map(Value::as_i64).collect() };
    let zone = named
        .get("tzinfo")
        .and_then(Value::as_str)
        .map(str::to_owned);
    match name {
        "date" | "datetime" | "time" => {
            let zone = match (named.len(), zone.as_deref()) {
                (0, _) => "",
                (1, Some("UTC" | "Etc/UTC")) => "+00:00",
                _ => return None,
            };
            let parts = numbers(&listed)?;
            let date = |parts: &[i64]| format!("{:04}-{:02}-{:02}", parts[0], parts[1], parts[2]);
            Some(Value::String(match (name, parts.len()) {
                ("date", 3) => date(&parts),
                ("datetime", 3..=7) => format!("{}T{}{zone}", date(&parts), clock(&parts[3..])),
                ("time", 1..=4) => clock(&parts) + zone,
                _ => return None,
            }))
        }
        "timedelta" => {
            let part = |name: &str| named.get(name).map_or(Some(0), Value::as_i64);
            let (days, seconds, micros) = (part("days")?, part("seconds")?, part("microseconds")?);
            let seconds = days.checked_mul(86_400)?.checked_add(seconds)?;
            let (sign, seconds) = if seconds < 0 {
                ("-", -seconds)
            } else {
                ("", seconds)
            };
            if sign == "-" && micros != 0 {
                return None;
            }
            let parts = [seconds / 3_600, seconds / 60 % 60, seconds % 60, micros];
            Some(Value::String(format!("{sign}{}", clock(&parts))))
        }
        "ZoneInfo" => named.remove("key"),
        _ => match (listed.len(), named.is_empty()) {
            (0, false) => Some(Value::Object(named)),
            // Other named arguments only describe the value, such as its precision or type.
            (1, _) => Some(pairs(&listed[0]).unwrap_or_else(|| listed.swap_remove(0))),
            _ => None,
        },
    }
}

/// Formats hours, minutes, seconds and microseconds; missing ones are 0.
fn clock(parts: &[i64]) -> String {
    let part = |at: usize| parts.get(at).copied().unwrap_or(0);
    let time = format!("{:02}:{:02}:{:02}", part(0), part(1), part(2));
    match part(3) {
        0 => time,
        micros => format!("{time}.{micros:06}"),
    }
}

/// Converts the pairs of `OrderedDict([('a', 1)])`, used by older drivers, to an object.
fn pairs(value: &Value) -> Option<Value> {
    let pairs = value.as_array().filter(|pairs| !pairs.is_empty())?.iter();
    let members: Option<Map<String, Value>> = pairs
        .map(|pair| match pair.as_array()?.as_slice() {
            [Value::String(name), value] => Some((name.clone(), value.clone())),
            _ => None,
        })
        .collect();
    members.map(Value::Object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parses_rows_of_drivers() {
        for (text, value) in [
            // repr of rows of duckdb 1.x
            (
                "[('Ada', Decimal('1.20'), datetime.date(2024, 5, 1), datetime.datetime(2024, 5, 1, 9, 15), datetime.time(9, 15), \
                 True, None, datetime.timedelta(seconds=5400), UUID('d9f4aebd-31e0-498a-a029-2b1cd7877e7c'), [1, 2], {'a': 1}, nan, inf, \
                 datetime.datetime(2024, 5, 1, 7, 15, tzinfo=zoneinfo.ZoneInfo(key='Etc/UTC')))]",
                json!([[
                    "Ada", "1.20", "2024-05-01", "2024-05-01T09:15:00", "09:15:00", true, null, "01:30:00",
                    "d9f4aebd-31e0-498a-a029-2b1cd7877e7c", [1, 2], {"a": 1}, null, "Infinity", "2024-05-01T07:15:00+00:00"
                ]]),
            ),
            // repr of rows of sqlite3 3.40
            (
                r#"[("A'da", 3, None), ('B"o', 2.5, b'\x00\x41')]"#,
                json!([["A'da", 3, null], ["B\"o", 2.5, "\u{0}A"]]),
            ),
            // LangChain's SQLDatabase.run, of one number
            ("[(3,)]", json!([[3]])),
            ("[(Decimal('1234.50'),)]", json!([["1234.50"]])),
            // psycopg2 and psycopg, PySpark, collections
            ("[RealDictRow([('name', 'Ada')])]", json!([{"name": "Ada"}])),
            ("[RealDictRow({'name': 'Ada'})]", json!([{"name": "Ada"}])),
            ("[Row(name='Ada', n=3)]", json!([{"name": "Ada", "n": 3}])),
            // to_dict and to_numpy of pandas
            (
                "{'n': {0: 3, 1: np.int64(2)}, 't': [Timestamp('2024-05-01 09:15:00'), NaT]}",
                json!({"n": {"0": 3, "1": 2}, "t": ["2024-05-01 09:15:00", null]}),
            ),
            ("()", json!([])),
            (
                "[(-1.5e-07, 1., 123456789012345678901234567890)]",
                json!([[-1.5e-07, 1.0, "123456789012345678901234567890"]]),
            ),
            (
                "[datetime.timedelta(days=1, seconds=3600, microseconds=5)]",
                json!(["25:00:00.000005"]),
            ),
            (r"['caf\xe9\u00e9\\\n']", json!(["caféé\\\n"])),
        ] {
            assert_eq!(parse_python(text).unwrap_or_default(), value, "{text}");
        }
    }

    #[test]
    fn rejects_other_text() {
        for text in [
            "",
            "Ada",
            "3",
            "(see note)",
            "[1] and [2]",
            "[1",
            "[1 2]",
            "{'a'}",
            "{'a': 1, 'a': 2}",
            "[<Status.OPEN: 1>]",
            "f(",
            "f()",
            "f(1, 2)",
            "['a]",
            "[x]",
            "[datetime.datetime(2024, 5, 1, tzinfo=tz)]",
            "[datetime.date(1, 2)]",
            "(,)",
            "[,]",
        ] {
            assert_eq!(parse_python(text), None, "{text}");
        }
        assert_eq!(parse_python(&"[".repeat(10_000)), None);
    }
}
