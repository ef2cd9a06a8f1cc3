//! Where a key stands in a file's text. Parsed values keep no places (marked-yaml refuses anchors, serde-saphyr and noyalib are at 0.0), so
//! the parser walks to the key once more, and ends there with an error that knows its place.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The line, from 1, of the deepest part of a dotted path (`dimensions.0.max`) that the text has; `None` if it has none.
pub fn line_of(text: &str, dotted_path: &str) -> Option<usize> {
    place_of(text, dotted_path).map(|(line, _)| line)
}

/// The same with the column, from 1, in characters.
pub fn place_of(text: &str, dotted_path: &str) -> Option<(usize, usize)> {
    let parts: Vec<&str> = dotted_path.split('.').collect();
    let mut depths = (1..=parts.len()).rev();
    depths.find_map(|depth| place(text, &parts[..depth]))
}

/// The first place of a piece of text at or after a line. Nothing is looked up when the piece is empty.
pub(super) fn of_text(text: &str, from_line: usize, piece: &str) -> Option<(usize, usize)> {
    if piece.is_empty() {
        return None;
    }
    text.lines()
        .enumerate()
        .skip(from_line.saturating_sub(1))
        .find_map(|(number, line)| {
            let at = line.find(piece)?;
            Some((number + 1, line[..at].chars().count() + 1))
        })
}

fn place(text: &str, path: &[&str]) -> Option<(usize, usize)> {
    let arrived = &Cell::new(false);
    let ended = Way { path, arrived }.deserialize(serde_yaml_ng::Deserializer::from_str(text));
    let at = ended.err()?.location()?;
    arrived.get().then(|| (at.line(), at.column()))
}

/// The way to a key: a map or a list where it leads on, anything at its end.
#[derive(Clone, Copy)]
struct Way<'a> {
    path: &'a [&'a str],
    arrived: &'a Cell<bool>,
}

impl<'de> DeserializeSeed<'de> for Way<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        if self.path.is_empty() {
            self.arrived.set(true);
        }
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Way<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the way to a key")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(is_wanted) = map.next_key_seed(Key(self))? {
            if is_wanted {
                let path = &self.path[1..];
                return map.next_value_seed(Way { path, ..self });
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let wanted = self.path.first().and_then(|part| part.parse().ok());
        let Some(wanted) = wanted else {
            return Err(A::Error::custom("a list has no such part"));
        };
        for _ in 0_usize..wanted {
            if list.next_element::<IgnoredAny>()?.is_none() {
                return Ok(());
            }
        }
        let path = &self.path[1..];
        list.next_element_seed(Way { path, ..self })?;
        Ok(())
    }
}

/// A key of a map: whether it is on the way. The last one is the end of it.
#[derive(Clone, Copy)]
struct Key<'a>(Way<'a>);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<bool, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key on the way")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<bool, E> {
        let Self(Way { path, arrived }) = self;
        match path {
            [last] if key == *last => {
                arrived.set(true);
                Err(E::custom("the end of the way"))
            }
            [next, ..] => Ok(key == *next),
            // The way ended at the map itself.
            [] => Err(E::custom("the end of the way")),
        }
    }
}
