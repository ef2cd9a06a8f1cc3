//! JSON: a list of objects, or an object that holds it. serde_json walks through the file once to find where each item stands; then
//! one item at a time is in memory.

use std::cell::Cell;
use std::io::{BufRead as _, BufReader, Error, Read, Seek, SeekFrom, copy, sink};
use std::ops::Range;

use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess,
};
use serde_json::value::RawValue;

use super::{Envelope, Limits, object, parse, too_large, too_many, unreadable};
use crate::memory::JsonShape;
use crate::suite::{SuiteError, SuiteRow};

/// What the list may be called.
const LISTS: [&str; 2] = ["items", "questions"];
/// The largest field beside the list, its name included, bytes.
const FIELD_BYTES: u64 = 64 << 10;
/// The most fields beside the list.
const FIELDS: usize = 64;

pub(super) struct Items<R> {
    input: BufReader<R>,
    at: u64,
    limits: Limits,
    envelope: Envelope,
    spans: std::iter::Enumerate<std::vec::IntoIter<Range<u64>>>,
}

impl<R: Read + Seek> Items<R> {
    pub(super) fn open(mut source: R, limits: Limits) -> Result<Self, SuiteError> {
        let walked = Walked {
            at: Cell::new(0),
            left: Cell::new(u64::MAX),
        };
        let mut found = FoundSpans {
            walked: &walked,
            limits,
            envelope: Envelope::default(),
            spans: Vec::new(),
            begun: 0,
            is_open: false,
            fault: None,
        };
        let mut input = BufReader::with_capacity(64 << 10, &mut source);
        let head = input.fill_buf().map_err(unreadable)?;
        if head.starts_with(b"\xef\xbb\xbf") {
            input.consume(3);
            walked.at.set(3);
        }
        let counted = Counted {
            input,
            walked: &walked,
        };
        let mut json = serde_json::Deserializer::from_reader(counted);
        let read = json.deserialize_any(&mut found).and_then(|()| json.end());
        if let Err(error) = read {
            return Err(found.describe(&error));
        }
        let (envelope, spans) = (found.envelope, found.spans);
        source.seek(SeekFrom::Start(0)).map_err(unreadable)?;
        Ok(Self {
            input: BufReader::with_capacity(64 << 10, source),
            at: 0,
            limits,
            envelope,
            spans: spans.into_iter().enumerate(),
        })
    }

    pub(super) fn into_envelope(self) -> Envelope {
        self.envelope
    }
}

impl<R: Read> Items<R> {
    /// What its heaviest item weighs, up to the first that can't be read.
    pub(super) fn heaviest(mut self) -> u64 {
        let mut most = 0;
        while let Some((_, span)) = self.spans.next()
            && let Ok(bytes) = self.bytes(&span)
        {
            most = most.max(JsonShape::measure(&bytes).weight());
        }
        most
    }

    pub(super) fn next(&mut self) -> Option<Result<SuiteRow, SuiteError>> {
        let (item_no, span) = self.spans.next()?;
        Some(self.row(item_no as u64, &span))
    }

    fn bytes(&mut self, span: &Range<u64>) -> Result<Vec<u8>, SuiteError> {
        let mut between = (&mut self.input).take(span.start - self.at);
        copy(&mut between, &mut sink()).map_err(unreadable)?;
        let mut bytes = Vec::new();
        let mut item = (&mut self.input).take(span.end - span.start);
        item.read_to_end(&mut bytes).map_err(unreadable)?;
        self.at = span.end;
        // A number's end is seen by what follows it.
        if matches!(bytes.first(), Some(b'-' | b'0'..=b'9')) {
            bytes.pop();
        }
        Ok(bytes)
    }

    fn row(&mut self, item_no: u64, span: &Range<u64>) -> Result<SuiteRow, SuiteError> {
        let bytes = self.bytes(span)?;
        let line = item_no + 1;
        Ok(SuiteRow {
            item_no,
            line,
            fields: object(&bytes, line, self.limits)?,
        })
    }
}

/// How far the walk has come, and how far it may go in the value that it is in.
struct Walked {
    at: Cell<u64>,
    left: Cell<u64>,
}

struct Counted<'a, R> {
    input: R,
    walked: &'a Walked,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = self.walked.left.get();
        if left == 0 {
            return Err(Error::other("the value is too long"));
        }
        let room = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.input.read(&mut buffer[..room])?;
        self.walked.left.set(left - read as u64);
        self.walked.at.set(self.walked.at.get() + read as u64);
        Ok(read)
    }
}

struct FoundSpans<'a> {
    walked: &'a Walked,
    limits: Limits,
    envelope: Envelope,
    spans: Vec<Range<u64>>,
    begun: u64,
    is_open: bool,
    fault: Option<SuiteError>,
}

impl FoundSpans<'_> {
    fn fail<T, E: de::Error>(&mut self, fault: SuiteError) -> Result<T, E> {
        self.fault = Some(fault);
        Err(E::custom("the walk ends here"))
    }

    /// Why the walk ended, to whoever wrote the file.
    fn describe(self, error: &serde_json::Error) -> SuiteError {
        if let Some(fault) = self.fault {
            return fault;
        }
        let message = match error.classify() {
            serde_json::error::Category::Eof if !self.is_open => "the file is empty".to_owned(),
            serde_json::error::Category::Eof => format!("the file breaks off: {error}"),
            serde_json::error::Category::Io => format!("the file can't be read: {error}"),
            serde_json::error::Category::Syntax => format!("the file is not JSON: {error}"),
            serde_json::error::Category::Data => format!("the file has another form: {error}"),
        };
        SuiteError {
            line: (self.begun > 0).then_some(self.begun),
            column: None,
            message,
        }
    }

    fn field<E: de::Error>(&mut self, name: String, value: &RawValue) -> Result<(), E> {
        let fields = &mut self.envelope.fields;
        let fault = if fields.len() >= FIELDS {
            format!("the file has more than {FIELDS} fields beside its items")
        } else if fields.contains_key(&name) {
            format!("the field `{name}` stands there twice")
        } else {
            match parse(value.get().as_bytes(), self.limits) {
                Ok(value) => {
                    fields.insert(name, value);
                    return Ok(());
                }
                Err(fault) => format!("the field `{name}` {fault}"),
            }
        };
        self.fail(SuiteError::whole(fault))
    }
}

impl<'de> de::Visitor<'de> for &mut FoundSpans<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON list of objects, or an object with the list as `items`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        self.is_open = true;
        List(self).visit_seq(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        self.is_open = true;
        loop {
            self.walked.left.set(FIELD_BYTES);
            let Some(name) = object.next_key::<String>()? else {
                break;
            };
            if LISTS.contains(&name.as_str()) {
                if let Some(list) = &self.envelope.list {
                    let fault = format!("the file has two lists of items, `{list}` and `{name}`");
                    return self.fail(SuiteError::whole(fault));
                }
                self.envelope.list = Some(name);
                self.walked.left.set(u64::MAX);
                object.next_value_seed(List(self))?;
                continue;
            }
            match object.next_value::<Box<RawValue>>() {
                Err(_) if self.walked.left.get() == 0 => {
                    let fault = format!("the field `{name}` has more than {FIELD_BYTES} bytes");
                    return self.fail(SuiteError::whole(fault));
                }
                value => self.field(name, &value?)?,
            }
        }
        self.walked.left.set(u64::MAX);
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
        self.fail(SuiteError::whole(format!(
            "the object has no list `items` or `questions`; its fields are [{found}]{remedy}"
        )))
    }
}

struct List<'a, 'b>(&'a mut FoundSpans<'b>);

impl<'de> DeserializeSeed<'de> for List<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, list: D) -> Result<(), D::Error> {
        list.deserialize_seq(self)
    }
}

impl<'de> de::Visitor<'de> for List<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(()) = list.next_element_seed(Item(&mut *self.0))? {}
        Ok(())
    }
}

struct Item<'a, 'b>(&'a mut FoundSpans<'b>);

impl<'de> DeserializeSeed<'de> for Item<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, item: D) -> Result<(), D::Error> {
        let Self(found) = self;
        let (walked, limits) = (found.walked, found.limits);
        if found.begun >= limits.items {
            return found.fail(too_many(limits));
        }
        found.begun += 1;
        let start = walked.at.get().saturating_sub(1);
        walked.left.set(limits.item_bytes.saturating_sub(1));
        match IgnoredAny::deserialize(item) {
            Err(_) if walked.left.get() == 0 => found.fail(too_large(found.begun, limits)),
            Err(error) => Err(error),
            Ok(IgnoredAny) => {
                walked.left.set(u64::MAX);
                found.spans.push(start..walked.at.get());
                Ok(())
            }
        }
    }
}
