//! JSON: a list of objects, or an object that holds it. Split into items by their brackets, so that one is in memory.

use std::io::{BufRead as _, BufReader, Read};

use serde_json::Value;

use super::{Envelope, Limits, object, parse, too_large, too_many, unreadable};
use crate::suite::{Row, SuiteError};

/// What the list may be called.
const LISTS: [&str; 2] = ["items", "questions"];
/// The largest field beside the list, bytes.
const FIELD_BYTES: u64 = 64 << 10;
/// The most fields beside the list.
const FIELDS: usize = 64;

/// The items of a JSON file.
pub(super) struct Items<R> {
    input: BufReader<R>,
    limits: Limits,
    place: Place,
    envelope: Envelope,
    item_no: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the list, before its first item.
    ListStart,
    /// In the list, after an item.
    AfterItem,
    /// In the outer object, before its first key.
    ObjectStart,
    /// In the outer object, after a field.
    AfterField,
    /// At the end, or behind a fault of the form.
    End,
}

/// Why the bytes of a value didn't come.
enum Cut {
    TooLong,
    Other(SuiteError),
}

impl<R: Read> Items<R> {
    pub(super) fn open(source: R, limits: Limits) -> Result<Self, SuiteError> {
        let mut items = Self {
            input: BufReader::with_capacity(64 << 10, source),
            limits,
            place: Place::End,
            envelope: Envelope::default(),
            item_no: 0,
        };
        items.skip_bom()?;
        items.place = match items.token()? {
            Some(b'[') => Place::ListStart,
            Some(b'{') => Place::ObjectStart,
            Some(_) => {
                return Err(SuiteError::whole(
                    "the file must be a JSON list of objects, or an object with the list as `items`",
                ));
            }
            None => return Err(SuiteError::whole("the file is empty")),
        };
        Ok(items)
    }

    /// Walks to the end and answers what stands beside the list.
    pub(super) fn into_envelope(mut self) -> Result<Envelope, SuiteError> {
        while self.step()?.is_some() {}
        Ok(self.envelope)
    }

    pub(super) fn next(&mut self) -> Option<Result<Row, SuiteError>> {
        match self.step() {
            Ok(Some(bytes)) => Some(self.row(&bytes)),
            Ok(None) => None,
            Err(error) => {
                self.place = Place::End;
                Some(Err(error))
            }
        }
    }

    fn row(&mut self, bytes: &[u8]) -> Result<Row, SuiteError> {
        let line = self.item_no;
        Ok(Row {
            item_no: line - 1,
            line,
            fields: object(bytes, line, self.limits.depth)?,
        })
    }

    /// The next item's bytes; `None` at the end of the file.
    fn step(&mut self) -> Result<Option<Vec<u8>>, SuiteError> {
        loop {
            let place = std::mem::replace(&mut self.place, Place::End);
            match place {
                Place::End => return Ok(None),
                Place::ListStart if self.peek_token()? == Some(b']') => {
                    self.bump()?;
                    self.place = self.after_list()?;
                }
                Place::ListStart => return self.item().map(Some),
                Place::AfterItem => match self.token()? {
                    Some(b',') => return self.item().map(Some),
                    Some(b']') => self.place = self.after_list()?,
                    other => return Err(self.unexpected(other, "`,` or `]` after an item")),
                },
                Place::ObjectStart if self.peek_token()? == Some(b'}') => {
                    self.bump()?;
                    self.end()?;
                }
                Place::ObjectStart => self.field()?,
                Place::AfterField => match self.token()? {
                    Some(b',') => self.field()?,
                    Some(b'}') => self.end()?,
                    other => return Err(self.unexpected(other, "`,` or `}` after a field")),
                },
            }
        }
    }

    fn item(&mut self) -> Result<Vec<u8>, SuiteError> {
        if self.item_no >= self.limits.items {
            return Err(too_many(self.limits));
        }
        self.item_no += 1;
        let line = self.item_no;
        let bytes = match self.value(self.limits.item_bytes) {
            Ok(bytes) => bytes,
            Err(Cut::TooLong) => return Err(too_large(line, self.limits)),
            Err(Cut::Other(error)) => return Err(error),
        };
        self.place = Place::AfterItem;
        Ok(bytes)
    }

    /// One field of the outer object: the list's beginning, or another one.
    fn field(&mut self) -> Result<(), SuiteError> {
        match self.peek_token()? {
            Some(b'"') => {}
            other => return Err(self.unexpected(other, "the name of a field")),
        }
        let name = self.small("the name of a field")?;
        let name = name.as_str().unwrap_or_default().to_owned();
        match self.token()? {
            Some(b':') => {}
            other => return Err(self.unexpected(other, "`:` after the name of a field")),
        }
        if LISTS.contains(&name.as_str()) {
            if let Some(list) = &self.envelope.list {
                return Err(SuiteError::whole(format!(
                    "the file has two lists of items, `{list}` and `{name}`"
                )));
            }
            match self.token()? {
                Some(b'[') => {}
                _ => {
                    return Err(SuiteError::whole(format!(
                        "`{name}` must be a list of objects"
                    )));
                }
            }
            self.envelope.list = Some(name);
            self.place = Place::ListStart;
            return Ok(());
        }
        let value = self.small(&name)?;
        if self.envelope.fields.len() >= FIELDS {
            return Err(SuiteError::whole(format!(
                "the file has more than {FIELDS} fields beside its items"
            )));
        }
        if self.envelope.fields.contains_key(&name) {
            return Err(SuiteError::whole(format!(
                "the field `{name}` stands there twice"
            )));
        }
        self.envelope.fields.insert(name, value);
        self.place = Place::AfterField;
        Ok(())
    }

    /// A value beside the list.
    fn small(&mut self, name: &str) -> Result<Value, SuiteError> {
        let bytes = match self.value(FIELD_BYTES) {
            Ok(bytes) => bytes,
            Err(Cut::TooLong) => {
                return Err(SuiteError::whole(format!(
                    "the field `{name}` has more than {FIELD_BYTES} bytes"
                )));
            }
            Err(Cut::Other(error)) => return Err(error),
        };
        parse(&bytes, self.limits.depth)
            .map_err(|fault| SuiteError::whole(format!("the field `{name}` {fault}")))
    }

    fn after_list(&mut self) -> Result<Place, SuiteError> {
        if self.envelope.list.is_some() {
            return Ok(Place::AfterField);
        }
        self.end_of_file()?;
        Ok(Place::End)
    }

    fn end(&mut self) -> Result<(), SuiteError> {
        if self.envelope.list.is_none() {
            let found: Vec<&str> = self.envelope.fields.keys().map(String::as_str).collect();
            return Err(SuiteError::whole(format!(
                "the object has no list `items`; its fields are [{}]",
                found.join(", ")
            )));
        }
        self.end_of_file()
    }

    fn end_of_file(&mut self) -> Result<(), SuiteError> {
        match self.token()? {
            None => Ok(()),
            other => Err(self.unexpected(other, "the end of the file")),
        }
    }

    /// The bytes of the value that begins here; whether they are JSON is seen when they are parsed.
    fn value(&mut self, max: u64) -> Result<Vec<u8>, Cut> {
        let mut bytes = Vec::new();
        let first = self.peek_token().map_err(Cut::Other)?;
        let (mut open, mut in_string, mut escaped) = (0_usize, false, false);
        let bracketed = matches!(first, Some(b'{' | b'[' | b'"'));
        loop {
            let chunk = self
                .input
                .fill_buf()
                .map_err(|error| Cut::Other(unreadable(error)))?;
            if chunk.is_empty() {
                let whole = !bracketed && !bytes.is_empty();
                return if whole {
                    Ok(bytes)
                } else {
                    Err(Cut::Other(self.unexpected(None, "a value")))
                };
            }
            let mut taken = 0;
            let mut ended = false;
            for byte in chunk {
                if !bracketed && matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n') {
                    ended = true;
                    break;
                }
                taken += 1;
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' if in_string => escaped = true,
                    b'"' => in_string = !in_string,
                    b'{' | b'[' if !in_string => open += 1,
                    b'}' | b']' if !in_string => open = open.saturating_sub(1),
                    _ => {}
                }
                if bracketed && open == 0 && !in_string {
                    ended = true;
                    break;
                }
            }
            if (bytes.len() + taken) as u64 > max {
                return Err(Cut::TooLong);
            }
            bytes.extend_from_slice(chunk.get(..taken).unwrap_or_default());
            self.input.consume(taken);
            if ended {
                return if bytes.is_empty() {
                    let found = self.peek_token().map_err(Cut::Other)?;
                    Err(Cut::Other(self.unexpected(found, "a value")))
                } else {
                    Ok(bytes)
                };
            }
        }
    }

    /// The next byte that isn't white space, taken.
    fn token(&mut self) -> Result<Option<u8>, SuiteError> {
        let found = self.peek_token()?;
        if found.is_some() {
            self.bump()?;
        }
        Ok(found)
    }

    fn peek_token(&mut self) -> Result<Option<u8>, SuiteError> {
        loop {
            let chunk = self.input.fill_buf().map_err(unreadable)?;
            let Some(first) = chunk.first().copied() else {
                return Ok(None);
            };
            if !matches!(first, b' ' | b'\t' | b'\r' | b'\n') {
                return Ok(Some(first));
            }
            self.input.consume(1);
        }
    }

    fn bump(&mut self) -> Result<(), SuiteError> {
        self.input.fill_buf().map_err(unreadable)?;
        self.input.consume(1);
        Ok(())
    }

    fn skip_bom(&mut self) -> Result<(), SuiteError> {
        let chunk = self.input.fill_buf().map_err(unreadable)?;
        if chunk.starts_with(b"\xef\xbb\xbf") {
            self.input.consume(3);
        }
        Ok(())
    }

    fn unexpected(&self, found: Option<u8>, expected: &str) -> SuiteError {
        let message = match found {
            Some(byte) => format!(
                "the file is not JSON: expected {expected}, found `{}`",
                char::from(byte).escape_default()
            ),
            None => format!("the file breaks off: expected {expected}"),
        };
        SuiteError {
            line: (self.item_no > 0).then_some(self.item_no),
            column: None,
            message,
        }
    }
}
