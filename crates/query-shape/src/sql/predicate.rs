//! Predicates of a condition: the leaves under AND, OR, XOR and NOT, each with its operator.
//!
//! Operators are in lower case. NOT negates the operator of a leaf: `not a = 1` becomes `<>`, `not a < 1` becomes `>=`, `not a in (…)`
//! becomes `not in`. A single column has the operator `is true`, a single function its name.

use std::collections::HashSet;

use sqlparser::ast::{BinaryOperator, Expr, Function, JsonPredicateType, UnaryOperator};

use super::name;

pub(super) struct Leaf {
    /// Address of the node.
    pub(super) place: usize,
    /// Number of enclosing queries. Columns and literals of subqueries aren't part of the predicate.
    pub(super) depth: usize,
    pub(super) index: usize,
    pub(super) columns: HashSet<String>,
}

/// Passes each leaf of a condition to `found`, with its operator. The literals TRUE and FALSE aren't predicates.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever joins no predicates is one"
)]
pub(super) fn leaves(condition: &Expr, mut found: impl FnMut(&Expr, String)) {
    let mut rest = vec![(condition, false)];
    while let Some((expr, negated)) = rest.pop() {
        match expr {
            Expr::Nested(inner) => rest.push((inner, negated)),
            Expr::UnaryOp {
                op: UnaryOperator::Not | UnaryOperator::BangNot,
                expr,
            } => rest.push((expr, !negated)),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And | BinaryOperator::Or,
                right,
            } => rest.extend([(&**right, negated), (&**left, negated)]),
            // Negating one side negates the result.
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Xor,
                right,
            } => rest.extend([(&**right, false), (&**left, negated)]),
            Expr::Value(_) => {}
            leaf => found(leaf, operator(leaf, negated)),
        }
    }
}

/// Returns the unqualified column of an expression; `None` for variables.
pub(super) fn column(expr: &Expr) -> Option<&str> {
    let ident = if let Expr::Identifier(ident) = expr {
        ident
    } else if let Expr::CompoundIdentifier(idents) = expr {
        idents.last()?
    } else {
        return None;
    };
    let is_variable = ident.quote_style.is_none() && ident.value.starts_with(['@', ':', '$', '?']);
    (!is_variable).then_some(ident.value.as_str())
}

fn signed(word: &str, negated: bool) -> String {
    if negated {
        format!("not {word}")
    } else {
        word.to_owned()
    }
}

fn is(word: &str, negated: bool) -> String {
    if negated {
        format!("is not {word}")
    } else {
        format!("is {word}")
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is no predicate of the language's grammar is a value that is tested for being true"
)]
fn operator(expr: &Expr, negated: bool) -> String {
    match expr {
        Expr::BinaryOp { op, .. } => comparison(op, negated),
        Expr::AnyOp { compare_op, .. } => signed(&format!("{compare_op} any"), negated),
        Expr::AllOp { compare_op, .. } => signed(&format!("{compare_op} all"), negated),
        Expr::IsNull(_) => is("null", negated),
        Expr::IsNotNull(_) => is("null", !negated),
        Expr::IsTrue(_) => is("true", negated),
        Expr::IsNotTrue(_) => is("true", !negated),
        Expr::IsFalse(_) => is("false", negated),
        Expr::IsNotFalse(_) => is("false", !negated),
        Expr::IsUnknown(_) => is("unknown", negated),
        Expr::IsNotUnknown(_) => is("unknown", !negated),
        Expr::IsDistinctFrom(..) => is("distinct from", negated),
        Expr::IsNotDistinctFrom(..) => is("distinct from", !negated),
        Expr::IsJson {
            kind, negated: not, ..
        } => is(json(kind.as_ref()), negated != *not),
        Expr::IsNormalized { negated: not, .. } => is("normalized", negated != *not),
        Expr::In { negated: not, .. } => signed("in", negated != *not),
        Expr::Between { negated: not, .. } => signed("between", negated != *not),
        Expr::Like { negated: not, .. } => signed("like", negated != *not),
        Expr::ILike { negated: not, .. } => signed("ilike", negated != *not),
        Expr::SimilarTo { negated: not, .. } => signed("similar to", negated != *not),
        Expr::RLike { negated: not, .. } => signed("regexp", negated != *not),
        Expr::Exists { negated: not, .. } => signed("exists", negated != *not),
        Expr::MemberOf(_) => signed("member of", negated),
        Expr::MatchAgainst { .. } => signed("match against", negated),
        Expr::Function(function) => signed(&called(function), negated),
        Expr::Case { .. } => signed("case", negated),
        _ if negated => "is false".to_owned(),
        _ => "is true".to_owned(),
    }
}

fn json(kind: Option<&JsonPredicateType>) -> &'static str {
    match kind {
        None => "json",
        Some(JsonPredicateType::Value) => "json value",
        Some(JsonPredicateType::Scalar) => "json scalar",
        Some(JsonPredicateType::Array) => "json array",
        Some(JsonPredicateType::Object) => "json object",
    }
}

/// Function name in lower case, without its schema.
pub(super) fn called(function: &Function) -> String {
    name::table(&function.name)
        .map(|name| name.name.to_lowercase())
        .unwrap_or_default()
}

/// Returns a binary operator, negated if it has an opposite.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the other operators have no opposite, and go by their own sign"
)]
fn comparison(operator: &BinaryOperator, negated: bool) -> String {
    let (plain, opposite) = match operator {
        BinaryOperator::Eq => ("=", "<>"),
        BinaryOperator::NotEq => ("<>", "="),
        BinaryOperator::Lt => ("<", ">="),
        BinaryOperator::GtEq => (">=", "<"),
        BinaryOperator::Gt => (">", "<="),
        BinaryOperator::LtEq => ("<=", ">"),
        BinaryOperator::Regexp | BinaryOperator::PGRegexMatch => ("regexp", "not regexp"),
        BinaryOperator::PGRegexNotMatch => ("not regexp", "regexp"),
        BinaryOperator::PGRegexIMatch => ("iregexp", "not iregexp"),
        BinaryOperator::PGRegexNotIMatch => ("not iregexp", "iregexp"),
        BinaryOperator::PGLikeMatch => ("like", "not like"),
        BinaryOperator::PGNotLikeMatch => ("not like", "like"),
        BinaryOperator::PGILikeMatch => ("ilike", "not ilike"),
        BinaryOperator::PGNotILikeMatch => ("not ilike", "ilike"),
        other => return signed(&other.to_string().to_lowercase(), negated),
    };
    (if negated { opposite } else { plain }).to_owned()
}
