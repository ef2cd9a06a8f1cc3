//! JSON: a list of objects, or an object that holds it. It is split by its brackets, quotes and commas, one item in memory at a time. Whether an item is
//! JSON shows when it is parsed.

use std::io::{BufRead as _, BufReader, Read};

use super::{
    Envelope, Limits, ParseFault, SourceRow, encoding, object, parse, too_large, unreadable,
};
use crate::memory::JsonShape;
use crate::suite::SuiteError;

/// What the list may be called.
const LISTS: [&str; 2] = ["items", "questions"];
/// The largest field beside the list, bytes.
const FIELD_BYTES: u64 = 64 << 10;
/// The most fields beside the list.
const FIELDS: usize = 64;

pub(super) struct Items<R> {
    input: BufReader<R>,
    limits: Limits,
    place: Place,
    /// Whether a comma was read last, so that something must follow.
    after_comma: bool,
    /// The value that was read last.
    text: Vec<u8>,
    items: u64,
    envelope: Envelope,
}

#[derive(Clone, Copy)]
enum Place {
    Start,
    /// In the object that holds the list.
    Object,
    /// In the list.
    List,
    End,
}

impl<R: Read> Items<R> {
    pub(super) fn open(source: R, limits: Limits) -> Self {
        Self {
            input: BufReader::with_capacity(64 << 10, source),
            limits,
            place: Place::Start,
            after_comma: false,
            text: Vec::new(),
            items: 0,
            envelope: Envelope::default(),
        }
    }

    /// Reads to the end, and returns what stands beside the items.
    pub(super) fn into_envelope(mut self) -> Result<Envelope, SuiteError> {
        while self.find()? {}
        Ok(self.envelope)
    }

    /// What its heaviest item weighs, up to the first that can't be read.
    pub(super) fn heaviest(mut self) -> u64 {
        let mut most = 0;
        while let Ok(true) = self.find() {
            most = most.max(JsonShape::measure(&self.text).weight());
        }
        most
    }

    pub(super) fn next(&mut self) -> Result<Option<SourceRow>, SuiteError> {
        Ok(self.find()?.then(|| SourceRow {
            line: self.items,
            fields: object(&self.text, self.items, self.limits),
        }))
    }

    /// Reads the text of the next item; `false` at the end.
    fn find(&mut self) -> Result<bool, SuiteError> {
        loop {
            let next = self.peek()?;
            match (self.place, next) {
                (Place::Start, None) => return Err(SuiteError::whole("the file is empty")),
                (Place::Start, Some(b'[')) => self.pass(Place::List),
                (Place::Start, Some(b'{')) => self.pass(Place::Object),
                (Place::Start, Some(_)) => return Err(SuiteError::whole(self.other_form())),
                (Place::End, None) => return Ok(false),
                (Place::End, Some(_)) => {
                    return Err(self.fault("there are trailing characters behind it"));
                }
                (Place::List | Place::Object, None) => return Err(self.broken_off()),
                (Place::List, Some(b']')) if !self.after_comma => {
                    let is_held = self.envelope.list.is_some();
                    self.pass(if is_held { Place::Object } else { Place::End });
                    self.after_member()?;
                }
                (Place::Object, Some(b'}')) if !self.after_comma => {
                    self.pass(Place::End);
                    self.check_list()?;
                }
                (Place::List, Some(_)) => {
                    self.items += 1;
                    let too_large = too_large(self.items, self.limits);
                    self.value(self.limits.item_bytes, too_large)?;
                    return self.after_member().map(|()| true);
                }
                (Place::Object, Some(_)) => self.member()?,
            }
        }
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Result<Option<u8>, SuiteError> {
        loop {
            let byte = self.input.fill_buf().map_err(unreadable)?.first().copied();
            match byte {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.input.consume(1),
                // A byte order mark.
                Some(0xef | 0xbb | 0xbf) if matches!(self.place, Place::Start) => {
                    self.input.consume(1)
                }
                byte => return Ok(byte),
            }
        }
    }

    /// Passes the bracket that leads to another place.
    fn pass(&mut self, place: Place) {
        self.input.consume(1);
        self.place = place;
        self.after_comma = false;
    }

    /// Reads a value up to the sign behind it, which stays.
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

    /// Reads what is between two members, or between the last one and the bracket that closes them, which stays.
    fn after_member(&mut self) -> Result<(), SuiteError> {
        self.after_comma = false;
        match (self.place, self.peek()?) {
            (Place::List | Place::Object, Some(b',')) => {
                self.input.consume(1);
                self.after_comma = true;
                Ok(())
            }
            (Place::List, Some(b']'))
            | (Place::Object, Some(b'}'))
            | (Place::Start | Place::End, _) => Ok(()),
            (Place::List | Place::Object, None) => Err(self.broken_off()),
            (Place::List, Some(_)) => Err(self.fault("expected `,` or `]`")),
            (Place::Object, Some(_)) => Err(self.fault("expected `,` or `}`")),
        }
    }

    /// Reads a field of the object: the list's begin, or what stands beside it.
    fn member(&mut self) -> Result<(), SuiteError> {
        let too_large = |name: &str| {
            SuiteError::whole(format!(
                "the field `{name}` has more than {FIELD_BYTES} bytes"
            ))
        };
        self.value(FIELD_BYTES, too_large("?"))?;
        let Ok(name) = serde_json::from_slice::<String>(&self.text) else {
            return Err(self.fault("a key must be a string"));
        };
        if self.peek()? != Some(b':') {
            return Err(self.fault("expected `:`"));
        }
        self.input.consume(1);
        if LISTS.contains(&name.as_str()) {
            let next = self.peek()?;
            let fault = match (&self.envelope.list, next) {
                (None, Some(b'[')) => {
                    self.envelope.list = Some(name);
                    self.pass(Place::List);
                    return Ok(());
                }
                (None, _) => {
                    format!("the field `{name}` is no list: a list of objects is expected")
                }
                (Some(list), _) => {
                    format!("the file has two lists of items, `{list}` and `{name}`")
                }
            };
            return Err(SuiteError::whole(fault));
        }
        self.peek()?;
        self.value(FIELD_BYTES, too_large(&name))?;
        let fields = &mut self.envelope.fields;
        let fault = match parse(&self.text, self.limits) {
            _ if fields.len() >= FIELDS => {
                format!("the file has more than {FIELDS} fields beside its items")
            }
            _ if fields.contains_key(&name) => {
                format!("the field `{name}` is there twice: keep one")
            }
            Ok(value) => {
                fields.insert(name, value);
                return self.after_member();
            }
            Err(ParseFault::Refused { message, .. } | ParseFault::Syntax(message)) => {
                format!("the field `{name}` {message}")
            }
        };
        Err(SuiteError::whole(fault))
    }

    /// Refuses an object that holds no list.
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

    /// What the file is that begins with neither bracket.
    fn other_form(&self) -> String {
        match encoding(self.input.buffer()) {
            Some(encoding) => format!("the file is {encoding}: save the file as UTF-8"),
            None => "the file has another form: expected a JSON list of objects, or an object with the list as `items`".to_owned(),
        }
    }

    fn broken_off(&self) -> SuiteError {
        self.fault("it breaks off")
    }

    /// What is wrong with the file as a whole, with the item that was read last.
    fn fault(&self, what: &str) -> SuiteError {
        SuiteError {
            line: (self.items > 0).then_some(self.items),
            column: None,
            message: format!("the file is not JSON: {what}"),
        }
    }
}
