//! Option values from a fixed list, which help and errors show.

use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::wire::UnknownText;

pub(super) fn choice<T>(
    names: impl Iterator<Item = &'static str>,
) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = UnknownText> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}
