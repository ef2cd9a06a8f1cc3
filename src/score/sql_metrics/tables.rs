//! Table accuracy: the Jaccard index of the tables a query uses and those it should use.
//!
//! Names compare in lower case. Two qualified names are equal as wholes; if one of them has no qualifier, by the last part, so
//! `public.users` and `users` are one table, and `public.users` and `audit.users` two. A name is matched once.

use std::collections::{BTreeMap, BTreeSet};

use crate::score::tables::TableName;

/// How far two sets of tables agree.
#[derive(Debug, Clone, PartialEq)]
pub struct TableAccuracy {
    /// Tables in both over tables in either; 1 if both are empty, 0 if one is.
    pub score: f64,
    /// Expected tables that are used, sorted, in lower case like the others.
    pub matched: Vec<String>,
    /// Expected tables that aren't used.
    pub missing: Vec<String>,
    /// Used tables that aren't expected.
    pub extra: Vec<String>,
}

/// The tables of one last name.
#[derive(Debug, Default)]
struct Namesakes {
    generated: BTreeSet<String>,
    expected: BTreeSet<String>,
}

/// Compares the tables of the generated query with the expected ones.
pub fn compare(generated: &[TableName], expected: &[TableName]) -> TableAccuracy {
    let mut by_name: BTreeMap<String, Namesakes> = BTreeMap::new();
    for table in generated.iter().map(TableName::folded) {
        let dotted = table.dotted();
        let namesakes = by_name.entry(table.name).or_default();
        namesakes.generated.insert(dotted);
    }
    for table in expected.iter().map(TableName::folded) {
        let dotted = table.dotted();
        let namesakes = by_name.entry(table.name).or_default();
        namesakes.expected.insert(dotted);
    }
    let mut accuracy = TableAccuracy {
        score: 0.0,
        matched: Vec::new(),
        missing: Vec::new(),
        extra: Vec::new(),
    };
    for (name, namesakes) in by_name {
        accuracy.add(&name, namesakes);
    }
    accuracy.matched.sort_unstable();
    accuracy.missing.sort_unstable();
    accuracy.extra.sort_unstable();
    accuracy.score = accuracy.jaccard();
    accuracy
}

impl TableAccuracy {
    /// Matches the tables of one last name: equal names first, then the bare one of each side with what is left of the other.
    fn add(&mut self, bare: &str, mut namesakes: Namesakes) {
        let common = namesakes.generated.intersection(&namesakes.expected);
        let common: Vec<String> = common.cloned().collect();
        for name in &common {
            namesakes.generated.remove(name);
            namesakes.expected.remove(name);
        }
        self.matched.extend(common);
        if !namesakes.expected.is_empty() && namesakes.generated.remove(bare) {
            self.matched.extend(namesakes.expected.pop_first());
        }
        if !namesakes.generated.is_empty() && namesakes.expected.remove(bare) {
            namesakes.generated.pop_first();
            self.matched.push(bare.to_owned());
        }
        self.missing.extend(namesakes.expected);
        self.extra.extend(namesakes.generated);
    }

    fn jaccard(&self) -> f64 {
        let all = self.matched.len() + self.missing.len() + self.extra.len();
        if all == 0 {
            return 1.0;
        }
        self.matched.len() as f64 / all as f64
    }
}

/// Reads a name that a case expects: `users`, `public.users`, `[dbo].[my users]`, `` `p.d.t` ``. Points in double quotes or brackets are part
/// of the name, those in backticks separate.
pub fn expected_table(text: &str) -> TableName {
    let mut parts = vec![String::new()];
    let mut close = None;
    for c in text.trim().chars() {
        let is_start = parts.last().is_none_or(|part| part.trim().is_empty());
        match (close, c) {
            (Some(quote), c) if c == quote => close = None,
            (Some('"' | ']'), c) => push(&mut parts, c),
            (_, '.') => parts.push(String::new()),
            (None, '"' | '`') if is_start => close = Some(c),
            (None, '[') if is_start => close = Some(']'),
            (_, c) => push(&mut parts, c),
        }
    }
    // `db..t` leaves out the schema.
    let mut parts: Vec<String> = parts
        .iter()
        .map(|part| part.trim().to_owned())
        .filter(|part| !part.is_empty())
        .collect();
    let name = parts.pop().unwrap_or_default();
    TableName {
        qualifiers: parts,
        name,
    }
}

fn push(parts: &mut [String], c: char) {
    if let Some(part) = parts.last_mut() {
        part.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(texts: &[&str]) -> Vec<TableName> {
        texts.iter().map(|text| expected_table(text)).collect()
    }

    #[test]
    fn tables_count_by_jaccard() {
        let cases: &[(&[&str], &[&str], f64)] = &[
            (&[], &[], 1.0),
            (&["a"], &[], 0.0),
            (&[], &["a"], 0.0),
            (&["a", "b"], &["B", "A"], 1.0),
            (&["a", "b"], &["a", "c"], 1.0 / 3.0),
            (&["a"], &["a", "b"], 0.5),
            (&["public.users"], &["users"], 1.0),
            (&["users"], &["[public].[Users]"], 1.0),
            (&["public.users"], &["audit.users"], 0.0),
            (&["public.users", "audit.users"], &["users"], 0.5),
            (&["users", "audit.users"], &["users", "audit.users"], 1.0),
            (&["users", "users"], &["users"], 1.0),
        ];
        for (generated, expected, score) in cases {
            let accuracy = compare(&names(generated), &names(expected));
            assert_eq!(accuracy.score, *score, "{generated:?} {expected:?}");
        }
    }

    #[test]
    fn details_name_what_is_missing_and_what_is_extra() {
        let accuracy = compare(&names(&["s.a", "c"]), &names(&["A", "b"]));
        assert_eq!(accuracy.matched, ["a"]);
        assert_eq!(accuracy.missing, ["b"]);
        assert_eq!(accuracy.extra, ["c"]);
    }

    #[test]
    fn an_expected_name_may_be_quoted_as_in_sql() {
        let cases = [
            ("users", "users", 0),
            (" public.users ", "users", 1),
            ("[dbo].[my users]", "my users", 1),
            ("\"a.b\".\"c.d\"", "c.d", 1),
            ("`p-1.d.t`", "t", 2),
            ("`p`.`d`.`t`", "t", 2),
            ("db..t", "t", 1),
            ("", "", 0),
            ("a[1", "a[1", 0),
        ];
        for (text, name, qualifiers) in cases {
            let table = expected_table(text);
            assert_eq!(
                (table.name.as_str(), table.qualifiers.len()),
                (name, qualifiers),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_score_is_a_share_and_both_sides_are_alike(
            left in prop::collection::vec("[ab]\\.[ab]|[ab]", 0..6),
            right in prop::collection::vec("[ab]\\.[ab]|[ab]", 0..6),
        ) {
            let side = |texts: &[String]| texts.iter().map(|text| expected_table(text)).collect::<Vec<_>>();
            let (left, right) = (side(&left), side(&right));
            let score = compare(&left, &right).score;
            prop_assert!((0.0..=1.0).contains(&score));
            prop_assert_eq!(score, compare(&right, &left).score);
            prop_assert_eq!(compare(&left, &left).score, 1.0);
        }

        #[test]
        fn every_text_is_a_name(text in any::<String>()) {
            let _ = expected_table(&text);
        }
    }
}
