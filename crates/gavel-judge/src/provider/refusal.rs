//! What a refusal means: from status and error body to a class. One table for all families.

use super::format::WireFormat;
use super::said::Said;
use super::shape::{Field, Shape};
use crate::error::ErrorClass;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Classified {
    /// A class, and what follows from it.
    Class(ErrorClass),
    /// This field isn't wanted.
    Capability(Field),
}

/// What a refusal of a request of shape `sent` means.
pub(super) fn classify(format: &WireFormat, status: u16, said: &Said, sent: Shape) -> Classified {
    let class = match status {
        // A gateway's 200 with an error inside: its code may stand for the status that it got.
        200..=299 => match format.inner_status(said) {
            Some(inner) if inner >= 400 => return classify(format, inner, said, sent),
            Some(_) | None => ErrorClass::Rejected,
        },
        401 | 403 | 404 => ErrorClass::Misconfigured,
        402 => ErrorClass::Exhausted,
        // Those above 511 are what proxies before a server say that is down.
        408 | 409 | 425 | 500 | 502..=504 | 520..=599 => ErrorClass::Transient,
        413 => ErrorClass::TooLarge,
        429 if (format.used_up)(said) => ErrorClass::Exhausted,
        429 => ErrorClass::Throttled,
        400 | 422 => {
            let mut known = format.bad_requests.iter();
            match known.find(|(signal, _)| signal.is_in(said)) {
                Some((_, class)) => *class,
                None => match refused_field(format, said, sent) {
                    Some(field) => return Classified::Capability(field),
                    None => ErrorClass::Rejected,
                },
            }
        }
        _ => ErrorClass::Rejected,
    };
    Classified::Class(class)
}

/// The field that the server names, if we sent it: by `param`, else the first that its message names.
fn refused_field(format: &WireFormat, said: &Said, sent: Shape) -> Option<Field> {
    // A cap that is known and too high keeps its name: renaming it would be remembered, and help nobody.
    let too_high = said.mentions(&["too large", "too high", "at most", "less than or equal"]);
    let ours = Field::ALL.into_iter().filter(|field| match field {
        Field::MaxCompletionTokens | Field::MaxTokens => sent.has(*field) && !too_high,
        Field::Temperature | Field::Format | Field::Seed => sent.has(*field),
    });
    if let Some(param) = &said.param {
        let param = param.split(['.', '[']).next().unwrap_or_default();
        return ours
            .into_iter()
            .find(|field| (format.names)(*field, sent).contains(&param));
    }
    ours.filter_map(|field| {
        (format.names)(field, sent)
            .iter()
            .filter_map(|name| whole_word(&said.message, name))
            .min()
            .map(|at| (at, field))
    })
    .min_by_key(|(at, _)| *at)
    .map(|(_, field)| field)
}

fn whole_word(message: &str, name: &str) -> Option<usize> {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    message.match_indices(name).map(|(at, _)| at).find(|at| {
        let before = message.get(..*at).and_then(|text| text.chars().next_back());
        let after = message
            .get(at + name.len()..)
            .and_then(|text| text.chars().next());
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}

#[cfg(test)]
mod tests;
