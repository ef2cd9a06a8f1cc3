//! An option whose value is a name out of a closed list, which its help and its fault show.

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
