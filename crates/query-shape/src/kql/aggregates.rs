//! Aggregate functions and grouping columns of `summarize` and `make-series`.

use super::Reader;
use super::lexer::TokenKind;
use super::source::Span;

const BY: &str = "by:";

/// Aggregate functions of KQL. Other functions in an aggregate's expression are scalar and don't count.
const AGGREGATES: &[&str] = &[
    "any",
    "anyif",
    "arg_max",
    "arg_min",
    "argmax",
    "argmin",
    "avg",
    "avgif",
    "binary_all_and",
    "binary_all_or",
    "binary_all_xor",
    "buildschema",
    "count",
    "count_distinct",
    "count_distinctif",
    "countif",
    "covariance",
    "covarianceif",
    "covariancep",
    "covariancepif",
    "dcount",
    "dcountif",
    "hll",
    "hll_if",
    "hll_merge",
    "make_bag",
    "make_bag_if",
    "make_dictionary",
    "make_list",
    "make_list_if",
    "make_list_with_nulls",
    "make_set",
    "make_set_if",
    "makelist",
    "makeset",
    "max",
    "maxif",
    "min",
    "minif",
    "percentile",
    "percentiles",
    "percentiles_array",
    "percentilesw",
    "percentilesw_array",
    "percentilew",
    "stdev",
    "stdevif",
    "stdevp",
    "stdevpif",
    "sum",
    "sumif",
    "take_any",
    "take_anyif",
    "tdigest",
    "tdigest_merge",
    "merge_tdigest",
    "variance",
    "varianceif",
    "variancep",
    "variancepif",
];

impl Reader<'_> {
    /// Records the aggregates of a `summarize`, given the tokens after the keyword.
    pub(super) fn summarize(&mut self, span: &Span) {
        let by = self
            .source
            .find(span, |at| self.source.is_name(at, span, "by"));
        let end = by.unwrap_or(span.end);
        self.aggregates(&(span.start..end));
        if let Some(by) = by {
            self.groups(&(by + 1..span.end));
        }
    }

    /// Records the aggregates of a `make-series`, given the tokens after the keyword. Its axis (`on Time from .. to .. step ..`) isn't a
    /// group.
    pub(super) fn series(&mut self, span: &Span) {
        let on = self.source.find(span, |at| {
            self.source.is_name(at, span, "on") || self.source.is_name(at, span, "by")
        });
        self.aggregates(&(span.start..on.unwrap_or(span.end)));
        if let Some(by) = self
            .source
            .find(span, |at| self.source.is_name(at, span, "by"))
        {
            self.groups(&(by + 1..span.end));
        }
    }

    fn aggregates(&mut self, span: &Span) {
        for item in self.source.split(span, TokenKind::Comma) {
            let item = self.without_alias(&item);
            self.aggregate(&item);
        }
    }

    /// Records the aggregate functions of an expression. Without a known one, records the outermost function.
    fn aggregate(&mut self, span: &Span) {
        let mut outermost = None;
        let mut known = false;
        let mut at = span.start;
        while at < span.end {
            if self.source.kind(at, span) == Some(TokenKind::Open) && self.source.piped(at) {
                at = self.source.after(at, span);
                continue;
            }
            if self.source.kind(at, span) == Some(TokenKind::Name)
                && self.source.opens(at + 1, span, "(")
            {
                let name = self.source.word(at);
                if AGGREGATES.contains(&name) {
                    self.found.aggregations.push(name.to_owned());
                    known = true;
                } else if outermost.is_none() && !self.source.piped(at + 1) {
                    outermost = Some(name);
                }
            }
            at += 1;
        }
        if let (false, Some(name)) = (known, outermost) {
            self.found.aggregations.push(name.to_lowercase());
        }
    }

    /// Records the columns of grouping expressions: `bin(Time, 1h)` groups by `Time`.
    fn groups(&mut self, span: &Span) {
        for item in self.source.split(span, TokenKind::Comma) {
            let item = self.without_alias(&item);
            let columns = self.named(&item).columns;
            let tagged = columns.into_iter().map(|column| format!("{BY}{column}"));
            self.found.aggregations.extend(tagged);
        }
    }

    /// Strips `name =` or `(names) =` from a list item.
    pub(super) fn without_alias(&self, span: &Span) -> Span {
        let after = self.source.after(span.start, span);
        if self.source.is_sign(after, span, "=") {
            return after + 1..span.end;
        }
        span.clone()
    }
}
