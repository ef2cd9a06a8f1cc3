use super::{exact, filter, operators};
use crate::Literal;

#[test]
fn leaves_of_and_or_not_are_predicates() {
    let cases: &[(&str, &[&str])] = &[
        (
            "T | where a == 1 and b =~ \"x\" or c != 2",
            &["==", "=~", "!="],
        ),
        (
            "T | where a == 1 | where b =~ \"x\" | filter c !~ \"y\"",
            &["==", "=~", "!~"],
        ),
        (
            "T | where (a < 1 and (b <= 2 or c > 3)) and d >= 4",
            &["<", "<=", ">", ">="],
        ),
        (
            "T | where a has \"x\" and b !has \"y\" and c contains \"z\"",
            &["has", "!has", "contains"],
        ),
        (
            "T | where a in (1, 2) and b !in~ (\"x\") and c in~ (\"y\")",
            &["in", "!in~", "in~"],
        ),
        (
            "T | where a between (1 .. 2) and b !between (3 .. 4)",
            &["between", "!between"],
        ),
        (
            "T | where a startswith \"x\" and b !endswith_cs \"y\"",
            &["startswith", "!endswith_cs"],
        ),
        (
            "T | where a has_any (\"x\", \"y\") and b has_all (\"z\")",
            &["has_any", "has_all"],
        ),
        ("T | where a matches regex \"^x|y$\"", &["matches regex"]),
        (
            "T | where isnotempty(a) and ipv4_is_private(b)",
            &["isnotempty", "ipv4_is_private"],
        ),
        ("T | where a", &["is true"]),
        ("T | where a <> 1", &["!="]),
        ("T | where 5 < a and 3 >= b", &[">", "<="]),
        ("T | where iff(a == 1, b, c) == 2", &["=="]),
        (
            "T | where tolower(a) == \"x\" and strlen(b) > 3",
            &["==", ">"],
        ),
        ("T | where a in (U | where b > 1 | project c)", &["in", ">"]),
        ("T | join (U | where a == 1) on b", &["=="]),
        ("let f = (U:(*)) { U | where a == 1 }; f(T)", &["=="]),
        (
            "T | search \"x\" and (b:\"y\" or c == 3)",
            &["has", "has", "=="],
        ),
        ("search in (T) \"x\" or not(\"y\")", &["has", "!has"]),
        (
            "find in (T) where a == 1 and \"x\" project a",
            &["==", "has"],
        ),
        ("search *", &[]),
        ("T | where a == \"b and c == 2\" // and d == 3", &["=="]),
        ("T | extend a = b == 1 | project c > 2", &[]),
    ];
    for (query, expected) in cases {
        assert_eq!(operators(&exact(query)), *expected, "{query}");
    }
}

#[test]
fn not_negates_operators() {
    let cases = [
        ("not(a == 1)", "!="),
        ("not (a != 1)", "=="),
        ("not(a =~ \"x\")", "!~"),
        ("not(a < 1)", ">="),
        ("not(a >= 1)", "<"),
        ("not(a has \"x\")", "!has"),
        ("not(a !contains \"x\")", "contains"),
        ("not(a in (1))", "!in"),
        ("not(a between (1 .. 2))", "!between"),
        ("not(a matches regex \"x\")", "!matches regex"),
        ("not(not(a == 1))", "=="),
        ("not(isempty(a))", "isnotempty"),
        ("not(isnotnull(a))", "isnull"),
        ("notnull(a)", "isnotnull"),
        ("not(f(a))", "!f"),
        ("not(a)", "is false"),
        ("not((((a == 1))))", "!="),
    ];
    for (predicate, operator) in cases {
        let filter = filter(&format!("T | where {predicate}"));
        assert_eq!(filter.operator, operator, "{predicate}");
        assert_eq!(filter.columns, ["a"], "{predicate}");
    }
    let shape = exact("T | where not(a == 1 and b > 2)");
    assert_eq!(operators(&shape), ["!=", "<="]);
}

#[test]
fn unexplained_names_are_columns() {
    let cases: &[(&str, &[&str])] = &[
        ("T | where a.b.c == 1", &["a"]),
        ("T | where['my a'] == b['c']", &["my a", "b"]),
        ("T | where ['my a'] == d['x'].y", &["my a", "d"]),
        ("T | where tostring(a[0][\"b\"]) == \"c\"", &["a"]),
        ("let n = 3; T | where a == n", &["a"]),
        ("T | where a between (ago(7d) .. now())", &["a"]),
        ("T | where strcat(a, b, a) has \"x\"", &["a", "b"]),
        ("T | where from == 1 or false", &["from"]),
        ("T | where a in (toscalar(U | take 1))", &["a"]),
        ("T | where * has \"x\"", &[]),
        ("T | where a in (dynamic([\"b\", \"c\"]))", &["a"]),
        ("T | where a == typeof(string)", &["a"]),
    ];
    for (query, expected) in cases {
        assert_eq!(exact(query).filters[0].columns, *expected, "{query}");
    }
}

#[test]
fn literals_are_normalized() {
    let text = |value: &str| Literal::Text(value.to_owned());
    let number = |value: &str| Literal::Number(value.to_owned());
    let at = |value: &str| Literal::Instant(value.to_owned());
    let hour = Literal::Duration(3_600_000_000_000);
    let cases: Vec<(&str, Vec<Literal>)> = vec![
        ("a > ago(1h)", vec![hour.clone()]),
        ("a > ago(60m)", vec![hour.clone()]),
        ("a > ago(3600s)", vec![hour.clone()]),
        ("a > timespan(01:00:00)", vec![hour.clone()]),
        ("a > time(\"0.01:00\")", vec![hour.clone()]),
        (
            "a > now(-1hour)",
            vec![Literal::Duration(-3_600_000_000_000)],
        ),
        ("a > b - 1h", vec![hour]),
        ("a == 0x10 or 1 == 2", vec![number("16")]),
        ("a == 1.50", vec![number("1.5")]),
        ("a == -15e-1", vec![number("-1.5")]),
        ("a == int(7)", vec![number("7")]),
        (
            "a == datetime(2024-03-08)",
            vec![at("2024-03-08T00:00:00Z")],
        ),
        (
            "a == datetime(\"2024-03-08 02:00:00.500+02:00\")",
            vec![at("2024-03-08T00:00:00.500Z")],
        ),
        ("a == datetime(3/8/2024)", vec![at("2024-03-08T00:00:00Z")]),
        (
            "a == guid(74BE27DE-1E4E-49D9-B579-FE0B331D3642)",
            vec![Literal::Other(
                "74be27de-1e4e-49d9-b579-fe0b331d3642".to_owned(),
            )],
        ),
        ("a == true", vec![Literal::Bool(true)]),
        ("True == a or x == FALSE", vec![Literal::Bool(true)]),
        ("a == bool(TRUE)", vec![Literal::Bool(true)]),
        ("a == int(null)", vec![Literal::Null]),
        ("a == \"x\\\"y\\\\\"", vec![text("x\"y\\")]),
        ("a == @'x''y\\'", vec![text("x'y\\")]),
        ("a == h@\"x\"", vec![text("x")]),
        ("a == ~~~x\n\"y\"~~~", vec![text("x\n\"y\"")]),
        ("a in (\"x\", 'y')", vec![text("x"), text("y")]),
        ("a in (dynamic([\"x\", 2]))", vec![text("x"), number("2")]),
        ("a[\"key\"] == \"x\"", vec![text("x")]),
    ];
    for (predicate, expected) in cases {
        let shape = exact(&format!("T | where {predicate}"));
        assert_eq!(shape.filters[0].literals, expected, "{predicate}");
    }
}
