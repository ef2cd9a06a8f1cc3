//! Finds the position of a key in a file. Parsed values have no positions (marked-yaml rejects anchors, serde-saphyr and noyalib are at
//! 0.0). So the parser runs again up to the key and fails there with an error that has a position.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Returns the line, from 1, of the deepest existing part of a dotted path (`dimensions.0.max`), or `None`.
pub fn line_of(text: &str, dotted_path: &str) -> Option<usize> {
    place_of(text, dotted_path).map(|(line, _)| line)
}

/// The same with the column, from 1, in characters.
pub fn place_of(text: &str, dotted_path: &str) -> Option<(usize, usize)> {
    let parts: Vec<&str> = dotted_path.split('.').collect();
    let mut depths = (1..=parts.len()).rev();
    depths.find_map(|depth| place(text, &parts[..depth]))
}

/// Returns the first position of `piece` at or after a line, or `None` if `piece` is empty.
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

/// Path to a key: map or list at inner parts, anything at the end.
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

/// Deserializes a map key that may be on the path; the last key ends it.
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
            // The path ends at the map itself.
            [] => Err(E::custom("the end of the way")),
        }
    }
}
