//! Table accuracy: parses the expected names in SQL notation. [`tables`](crate::similarity::tables) compares them with the tables
//! of the generated query.

use query_shape::TableName;

/// Parses an expected name: `users`, `public.users`, `[dbo].[my users]`, `` `p.d.t` ``. Dots in brackets or quotes are part of the name;
/// dots in backticks are separators.
pub fn expected_table(text: &str) -> TableName {
    let mut parts = vec![String::new()];
    let mut close = None;
    for c in text.trim().chars() {
        let is_start = parts.last().is_none_or(|part| part.trim().is_empty());
        match (close, c) {
            (Some(quote), c) if c == quote => close = None,
            (Some('"' | '\'' | ']'), c) => push(&mut parts, c),
            (_, '.') => parts.push(String::new()),
            (None, '"' | '\'' | '`') if is_start => close = Some(c),
            (None, '[') if is_start => close = Some(']'),
            (_, c) => push(&mut parts, c),
        }
    }
    // `db..t` omits the schema.
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
    use proptest::prelude::*;

    use super::*;
    use crate::similarity;

    fn names(texts: &[&str]) -> Vec<TableName> {
        texts.iter().map(|text| expected_table(text)).collect()
    }

    #[test]
    fn tables_score_is_jaccard_index() {
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
            let accuracy = similarity::tables(&names(expected), &names(generated));
            assert_eq!(accuracy.score, *score, "{generated:?} {expected:?}");
        }
    }

    #[test]
    fn details_list_missing_and_extra_tables() {
        let accuracy = similarity::tables(&names(&["A", "b"]), &names(&["s.a", "c"]));
        assert_eq!(accuracy.matched, ["a"]);
        assert_eq!(accuracy.missing, ["b"]);
        assert_eq!(accuracy.extra, ["c"]);
    }

    #[test]
    fn expected_name_may_be_quoted() {
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
            ("'data/x.parquet'", "data/x.parquet", 0),
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
        fn score_is_in_range_and_symmetric(
            left in prop::collection::vec("[ab]\\.[ab]|[ab]", 0..6),
            right in prop::collection::vec("[ab]\\.[ab]|[ab]", 0..6),
        ) {
            let side = |texts: &[String]| texts.iter().map(|text| expected_table(text)).collect::<Vec<_>>();
            let (left, right) = (side(&left), side(&right));
            let score = similarity::tables(&left, &right).score;
            prop_assert!((0.0..=1.0).contains(&score));
            prop_assert_eq!(score, similarity::tables(&right, &left).score);
            prop_assert_eq!(similarity::tables(&left, &left).score, 1.0);
        }

        #[test]
        fn any_text_is_a_name(text in any::<String>()) {
            let _ = expected_table(&text);
        }
    }
}
