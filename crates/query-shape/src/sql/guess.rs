//! The shape of a text that doesn't parse, guessed from its words in one pass: tables behind FROM, JOIN, INTO and UPDATE, operators behind
//! WHERE, ON and HAVING, aggregate functions by name, keys behind GROUP BY. Every shape from here is approximate.

use std::collections::HashSet;

use super::Dialect;
use super::aggregates::is_aggregate;
use super::lexer::{Kind, Lexer, Token};
use crate::{Filter, QueryShape, TableName};

/// Functions whose arguments hold the word FROM.
const FROM_IN_ARGUMENTS: &[&str] = &["extract", "overlay", "position", "substring", "trim"];

/// Words that a table's name can't be, and that end a list of tables or keys.
const ENDS: &[&str] = &[
    "anti",
    "as",
    "cross",
    "except",
    "fetch",
    "for",
    "from",
    "full",
    "group",
    "having",
    "inner",
    "insert",
    "intersect",
    "into",
    "join",
    "lateral",
    "left",
    "limit",
    "natural",
    "offset",
    "on",
    "only",
    "option",
    "order",
    "outer",
    "qualify",
    "right",
    "select",
    "semi",
    "set",
    "union",
    "using",
    "values",
    "when",
    "where",
    "window",
    "with",
];

/// Where in a query the words stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clause {
    /// Between the tables that FROM and its like introduce; the next name is one.
    Table,
    /// Behind a table's name, where a comma leads to the next one.
    AfterTable,
    /// In a condition.
    Condition,
    /// In GROUP BY.
    Keys,
    /// Anywhere else.
    Other,
}

/// The shape of a text, as far as its words tell.
pub(super) fn shape(sql: &str, dialect: Dialect) -> QueryShape {
    let tokens: Vec<Token<'_>> = Lexer::new(sql, dialect).collect();
    let mut guess = Guess {
        expressions: common_table_expressions(&tokens),
        tokens: &tokens,
        at: 0,
        clause: Clause::Other,
        around: Vec::new(),
        seen: HashSet::new(),
        shape: QueryShape {
            approximate: true,
            ..QueryShape::default()
        },
    };
    while guess.at < tokens.len() {
        guess.step();
    }
    guess.shape
}

/// The names that stand before `as (`, with or without columns, where WITH is said at all.
fn common_table_expressions(tokens: &[Token<'_>]) -> HashSet<String> {
    if !tokens.iter().any(|token| token.is("with")) {
        return HashSet::new();
    }
    tokens
        .windows(3)
        .filter(|three| {
            three[1].is("as")
                && (three[2].is_sign("(") || three[2].is("materialized") || three[2].is("not"))
        })
        .filter_map(|three| bare(&three[0]))
        .map(|name| name.to_lowercase())
        .collect()
}

/// A name without its quotes.
fn bare<'a>(token: &Token<'a>) -> Option<&'a str> {
    match token.kind {
        Kind::Word => (!token.text.starts_with(['@', ':', '$'])
            && !token.text.starts_with(|c: char| c.is_ascii_digit()))
        .then_some(token.text),
        Kind::Quoted => Some(token.text.trim_matches(['"', '`', '[', ']'])),
        Kind::Text | Kind::Sign => None,
    }
}

struct Guess<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    expressions: HashSet<String>,
    clause: Clause,
    /// The clause around each open parenthesis, and whether FROM is an argument in it.
    around: Vec<(Clause, bool)>,
    seen: HashSet<TableName>,
    shape: QueryShape,
}

impl Guess<'_> {
    fn step(&mut self) {
        let token = self.tokens[self.at];
        self.at += 1;
        match token.kind {
            Kind::Word if self.read_keyword(token) => {}
            Kind::Word | Kind::Quoted => self.read_name(token),
            Kind::Sign => self.read_sign(token),
            Kind::Text => {}
        }
    }

    fn peek(&self, sign: &str) -> bool {
        self.tokens
            .get(self.at)
            .is_some_and(|next| next.is_sign(sign))
    }

    fn before(&self, word: &str) -> bool {
        self.at > 1 && self.tokens[self.at - 2].is(word)
    }

    /// Follows the clauses; false if the word is none of them.
    fn read_keyword(&mut self, token: Token<'_>) -> bool {
        let word = token.text.to_ascii_lowercase();
        let is_argument = self
            .around
            .last()
            .is_some_and(|(_, is_argument)| *is_argument);
        self.clause = match word.as_str() {
            "from" if is_argument || self.before("distinct") => return true,
            "from" | "join" | "into" | "update" | "truncate" => Clause::Table,
            "table" if self.clause != Clause::Condition => Clause::Table,
            "where" | "on" | "having" | "qualify" | "prewhere" => Clause::Condition,
            "by" if self.before("group") => Clause::Keys,
            "by" if self.before("order") => {
                self.shape.sorted_at_top |= self.around.is_empty();
                Clause::Other
            }
            "if" | "exists" | "ignore" | "overwrite" | "only" if self.clause == Clause::Table => {
                return true;
            }
            "union" | "except" | "intersect" => {
                self.shape.sorted_at_top &= !self.around.is_empty();
                Clause::Other
            }
            "select" | "set" | "values" | "order" | "limit" | "group" | "window" => Clause::Other,
            "like" | "ilike" | "in" | "between" | "exists" | "rlike" | "regexp" | "is" => {
                self.read_word_operator(&word);
                return true;
            }
            _ => return ENDS.binary_search(&word.as_str()).is_ok(),
        };
        true
    }

    fn read_word_operator(&mut self, word: &str) {
        if self.clause != Clause::Condition {
            return;
        }
        let next = |offset: usize, word: &str| {
            self.tokens
                .get(self.at + offset)
                .is_some_and(|token| token.is(word))
        };
        let operator = if word == "is" {
            let is_not = next(0, "not");
            let what = self.tokens.get(self.at + usize::from(is_not));
            let what = what.map_or("null".to_owned(), |token| token.text.to_lowercase());
            format!("is {}{what}", if is_not { "not " } else { "" })
        } else if self.before("not") {
            format!("not {word}")
        } else {
            word.to_owned()
        };
        self.filter(operator);
    }

    fn filter(&mut self, operator: String) {
        self.shape.filters.push(Filter {
            operator,
            columns: Vec::new(),
            literals: Vec::new(),
        });
    }

    fn read_sign(&mut self, token: Token<'_>) {
        match token.text {
            "(" => {
                let is_argument = self.at > 1
                    && FROM_IN_ARGUMENTS
                        .contains(&self.tokens[self.at - 2].text.to_lowercase().as_str());
                self.around.push((self.clause, is_argument));
                // Behind a table's name stand columns or hints.
                if self.clause == Clause::AfterTable {
                    self.clause = Clause::Other;
                }
            }
            ")" => {
                if let Some((clause, _)) = self.around.pop() {
                    self.clause = match clause {
                        Clause::Table => Clause::AfterTable,
                        Clause::AfterTable | Clause::Condition | Clause::Keys | Clause::Other => {
                            clause
                        }
                    };
                }
            }
            "," if self.clause == Clause::AfterTable => self.clause = Clause::Table,
            ";" => self.clause = Clause::Other,
            "=" | "==" | "<>" | "!=" | "<" | ">" | "<=" | ">="
                if self.clause == Clause::Condition =>
            {
                self.filter(match token.text {
                    "==" => "=".to_owned(),
                    "!=" => "<>".to_owned(),
                    sign => sign.to_owned(),
                });
            }
            _ => {}
        }
    }

    /// Reads a name with its qualifiers: a table, a key, or a function.
    fn read_name(&mut self, first: Token<'_>) {
        let mut parts: Vec<&str> = bare(&first).into_iter().collect();
        while self.peek(".")
            && let Some(part) = self.tokens.get(self.at + 1).and_then(bare)
        {
            parts.push(part);
            self.at += 2;
        }
        let Some((name, qualifiers)) = parts.split_last() else {
            self.leave_table();
            return;
        };
        let is_call = self.peek("(");
        if is_call && is_aggregate(&name.to_lowercase()) {
            self.shape.aggregations.push(name.to_lowercase());
        }
        if self.clause == Clause::Keys && !is_call && self.around.is_empty() {
            self.shape
                .aggregations
                .push(format!("by:{}", name.to_lowercase()));
        }
        if self.clause == Clause::Table {
            let table = TableName {
                qualifiers: qualifiers.iter().map(|part| (*part).to_owned()).collect(),
                name: (*name).to_owned(),
            };
            self.read_table(table, is_call);
        }
    }

    fn leave_table(&mut self) {
        if self.clause == Clause::Table {
            self.clause = Clause::AfterTable;
        }
    }

    fn read_table(&mut self, table: TableName, is_call: bool) {
        self.leave_table();
        let is_expression =
            table.qualifiers.is_empty() && self.expressions.contains(&table.name.to_lowercase());
        // `insert into t (…)` lists columns; `from f(…)` calls a function.
        let is_function = is_call && !self.before("into") && !self.before("table");
        if is_expression || is_function || !self.seen.insert(table.folded()) {
            return;
        }
        if !table.qualifiers.is_empty() {
            self.shape.qualified.push(table.dotted());
        }
        self.shape.tables.push(table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tables(sql: &str) -> Vec<String> {
        let shape = shape(sql, Dialect::Generic);
        assert!(shape.approximate);
        shape.tables.iter().map(TableName::dotted).collect()
    }

    #[test]
    fn words_tell_the_tables_of_a_text_that_does_not_parse() {
        let cases: &[(&str, &[&str])] = &[
            ("select select from a join b.c on", &["a", "b.c"]),
            ("select * from a x, \"b\" y where ((", &["a", "b"]),
            (
                "with t as (select * from a) select * from t where (",
                &["a"],
            ),
            ("select extract(year from d) from a where (", &["a"]),
            ("insert into a (x, y) select x from b where (", &["a", "b"]),
            ("select * from a where b is distinct from c and (", &["a"]),
            ("select * from f(1) where (", &[]),
            ("select 'from a' -- from b", &[]),
            ("", &[]),
        ];
        for (sql, expected) in cases {
            assert_eq!(&tables(sql), expected, "{sql}");
        }
    }

    #[test]
    fn words_tell_filters_keys_and_order() {
        let shape = shape(
            "select a, count(*) from t where b = 1 and c not in (1) and d is not null group by a order by a with ur",
            Dialect::Generic,
        );
        let operators: Vec<_> = shape.filters.iter().map(|f| f.operator.as_str()).collect();
        assert_eq!(operators, ["=", "not in", "is not null"]);
        assert_eq!(shape.aggregations, ["count", "by:a"]);
        assert!(shape.sorted_at_top);
    }

    #[test]
    fn the_words_that_end_a_list_are_sorted() {
        assert!(ENDS.is_sorted());
    }

    proptest! {
        #[test]
        fn every_text_has_a_guess(text in any::<String>()) {
            for dialect in Dialect::ALL {
                prop_assert!(shape(&text, dialect).approximate);
            }
        }
    }
}
