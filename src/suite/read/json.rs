//! JSON: a list of objects, or an object with the list. The text is split at brackets, quotes and commas, with one item in memory at a
//! time. Each item is validated when it is parsed.

use std::io::{BufRead as _, BufReader, Read};

use super::{
    Envelope, ItemVisitor, LISTS, Limits, Stop, encoding, object, parse, too_large, unreadable,
};
use crate::suite::SuiteError;

/// Maximum bytes of a field outside the list.
const FIELD_BYTES: u64 = 64 << 10;
/// Maximum number of fields outside the list.
const FIELDS: usize = 64;

struct JsonFile<R> {
    input: BufReader<R>,
    limits: Limits,
    text: Vec<u8>,
    items: u64,
    envelope: Envelope,
}

/// Reads a file. Returns the fields outside the list.
pub(super) fn read(
    source: impl Read,
    limits: Limits,
    visit: &mut ItemVisitor<'_>,
) -> Result<Envelope, Stop> {
    let mut file = JsonFile {
        input: BufReader::with_capacity(64 << 10, source),
        limits,
        text: Vec::new(),
        items: 0,
        envelope: Envelope::default(),
    };
    // A byte order mark.
    while let Some(0xef | 0xbb | 0xbf) = file.peek()? {
        file.input.consume(1);
    }
    match file.peek()? {
        None => return Err(SuiteError::whole("the file is empty").into()),
        Some(b'[') => file.list(visit)?,
        Some(b'{') => {
            file.input.consume(1);
            let mut is_first = true;
            while file.has_more(b'}', std::mem::take(&mut is_first))? {
                if file.member()? {
                    file.list(visit)?;
                }
            }
            file.check_list()?;
        }
        Some(_) => return Err(SuiteError::whole(file.other_form()).into()),
    }
    match file.peek()? {
        None => Ok(file.envelope),
        Some(_) => Err(file.fault("there is text after its end: remove it, or save a file with one item per line as .jsonl").into()),
    }
}

impl<R: Read> JsonFile<R> {
    fn list(&mut self, visit: &mut ItemVisitor<'_>) -> Result<(), Stop> {
        self.input.consume(1);
        while self.has_more(b']', self.items == 0)? {
            self.peek()?;
            self.items += 1;
            let (item, limits) = (self.items, self.limits);
            self.value(limits.item_bytes, too_large(item, limits))?;
            visit(item, &self.text, &mut || object(&self.text, item, limits))?;
        }
        Ok(())
    }

    /// Returns whether another entry follows before the closing bracket. Consumes the comma or the bracket.
    fn has_more(&mut self, close: u8, is_first: bool) -> Result<bool, SuiteError> {
        match self.peek()? {
            None => Err(self.broken_off()),
            Some(byte) if byte == close => {
                self.input.consume(1);
                Ok(false)
            }
            Some(_) if is_first => Ok(true),
            Some(b',') => {
                self.input.consume(1);
                Ok(true)
            }
            Some(_) => Err(self.fault(&format!("expected `,` or `{}`", char::from(close)))),
        }
    }

    fn peek(&mut self) -> Result<Option<u8>, SuiteError> {
        loop {
            let byte = self.input.fill_buf().map_err(unreadable)?.first().copied();
            match byte {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.input.consume(1),
                byte => return Ok(byte),
            }
        }
    }

    /// Reads a value up to the delimiter, which isn't consumed.
    fn value(&mut self, max: u64, too_large: SuiteError) -> Result<(), SuiteError> {
        self.text.clear();
        let (mut depth, mut in_string, mut escaped) = (0_u32, false, false);
        loop {
            let buffer = self.input.fill_buf().map_err(unreadable)?;
            if buffer.is_empty() {
                return Err(self.broken_off());
            }
            let end = buffer.iter().position(|byte| {
                let is_end = !in_string && depth == 0 && matches!(byte, b',' | b':' | b']' | b'}');
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' if in_string => escaped = true,
                    b'"' => in_string = !in_string,
                    b'[' | b'{' if !in_string => depth += 1,
                    b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
                    _ => {}
                }
                is_end
            });
            let taken = end.unwrap_or(buffer.len());
            self.text.extend_from_slice(&buffer[..taken]);
            self.input.consume(taken);
            if self.text.trim_ascii_end().len() as u64 > max {
                return Err(too_large);
            }
            if end.is_some() {
                self.text.truncate(self.text.trim_ascii_end().len());
                return Ok(());
            }
        }
    }

    /// Reads a field. Returns `true` if it is the list, of which nothing is consumed.
    fn member(&mut self) -> Result<bool, SuiteError> {
        let too_large = |name: &str| {
            SuiteError::whole(format!(
                "the field `{name}` has more than {FIELD_BYTES} bytes"
            ))
        };
        self.peek()?;
        self.value(FIELD_BYTES, too_large("?"))?;
        let Ok(name) = serde_json::from_slice::<String>(&self.text) else {
            return Err(self.fault("a key must be a string"));
        };
        if self.peek()? != Some(b':') {
            return Err(self.fault("expected `:`"));
        }
        self.input.consume(1);
        let next = self.peek()?;
        if LISTS.contains(&name.as_str()) {
            return match (&self.envelope.list, next) {
                (None, Some(b'[')) => {
                    self.envelope.list = Some(name);
                    Ok(true)
                }
                (None, _) => Err(SuiteError::whole(format!(
                    "the field `{name}` is no list: a list of objects is expected"
                ))),
                (Some(list), _) => Err(SuiteError::whole(format!(
                    "the file has two lists of items, `{list}` and `{name}`: put all items into one of them"
                ))),
            };
        }
        self.value(FIELD_BYTES, too_large(&name))?;
        let fields = &mut self.envelope.fields;
        let fault = match parse(&self.text, self.limits) {
            _ if fields.len() >= FIELDS => {
                format!("the file has more than {FIELDS} fields next to its items")
            }
            _ if fields.contains_key(&name) => {
                format!("duplicate field `{name}`: keep one")
            }
            Ok(value) => {
                fields.insert(name, value);
                return Ok(false);
            }
            Err(fault) => format!("the field `{name}` {}", fault.message),
        };
        Err(SuiteError::whole(fault))
    }

    fn check_list(&self) -> Result<(), SuiteError> {
        if self.envelope.list.is_some() {
            return Ok(());
        }
        let found: Vec<&str> = self.envelope.fields.keys().map(String::as_str).collect();
        let is_session = found
            .iter()
            .any(|name| matches!(*name, "conversation" | "messages"));
        let remedy = match is_session {
            true => "; a session is scored by `gavel score FILE`",
            false => "",
        };
        let found = found.join(", ");
        Err(SuiteError::whole(format!(
            "the object has no list `items` or `questions`; its fields are [{found}]{remedy}"
        )))
    }

    fn other_form(&self) -> String {
        match encoding(self.input.buffer()) {
            Some(encoding) => format!("the file is {encoding}: save the file as UTF-8"),
            None => "the file has another form: expected a JSON list of objects, or an object with the list as `items`".to_owned(),
        }
    }

    fn broken_off(&self) -> SuiteError {
        self.fault("it breaks off")
    }

    /// Returns an error of the file, with the last item read.
    fn fault(&self, what: &str) -> SuiteError {
        SuiteError {
            line: (self.items > 0).then_some(self.items),
            column: None,
            message: format!("the file is not JSON: {what}"),
        }
    }
}
