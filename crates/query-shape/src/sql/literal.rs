//! SQL literals as comparable values. Expressions aren't evaluated.

use sqlparser::ast::{DataType, Expr, UnaryOperator, Value};

use crate::Literal;

/// Returns the literal of an expression: a value, a negative number, an interval or a typed string (`date
/// '2024-01-01'`).
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "of 60 kinds of expression four are literals"
)]
pub(super) fn of_expr(expr: &Expr) -> Option<Literal> {
    match expr {
        Expr::Value(value) => of_value(&value.value),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => negative(expr),
        Expr::Interval(interval) => {
            let Some(Literal::Text(amount) | Literal::Number(amount)) = of_expr(&interval.value)
            else {
                return None;
            };
            let unit = interval.leading_field.as_ref();
            let text = match unit {
                Some(unit) => format!("{amount} {unit}"),
                None => amount,
            };
            Some(Literal::duration(&text).unwrap_or(Literal::Other(text.to_lowercase())))
        }
        Expr::TypedString(typed) => {
            let text = text(&typed.value.value)?;
            let is_time = matches!(
                typed.data_type,
                DataType::Date | DataType::Timestamp(..) | DataType::Datetime(_)
            );
            is_time
                .then(|| Literal::instant(text))
                .flatten()
                .or_else(|| Some(Literal::Text(text.to_owned())))
        }
        _ => None,
    }
}

fn negative(expr: &Expr) -> Option<Literal> {
    if let Expr::Value(value) = expr
        && let Value::Number(digits, _) = &value.value
    {
        return Some(Literal::number(&format!("-{digits}")));
    }
    None
}

/// Converts a value. A string in the form of a time becomes a time, because SQL compares such strings with time
/// columns.
fn of_value(value: &Value) -> Option<Literal> {
    if let Value::Number(digits, _) = value {
        return Some(Literal::number(digits));
    }
    if let Value::Boolean(value) = value {
        return Some(Literal::Bool(*value));
    }
    if matches!(value, Value::Null) {
        return Some(Literal::Null);
    }
    let text = text(value)?;
    Some(Literal::instant(text).unwrap_or_else(|| Literal::Text(text.to_owned())))
}

pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::SingleQuotedString(text)
        | Value::TripleSingleQuotedString(text)
        | Value::TripleDoubleQuotedString(text)
        | Value::EscapedStringLiteral(text)
        | Value::UnicodeStringLiteral(text)
        | Value::SingleQuotedByteStringLiteral(text)
        | Value::DoubleQuotedByteStringLiteral(text)
        | Value::TripleSingleQuotedByteStringLiteral(text)
        | Value::TripleDoubleQuotedByteStringLiteral(text)
        | Value::SingleQuotedRawStringLiteral(text)
        | Value::DoubleQuotedRawStringLiteral(text)
        | Value::TripleSingleQuotedRawStringLiteral(text)
        | Value::TripleDoubleQuotedRawStringLiteral(text)
        | Value::NationalStringLiteral(text)
        | Value::HexStringLiteral(text)
        | Value::DoubleQuotedString(text) => Some(text),
        Value::DollarQuotedString(quoted) => Some(&quoted.value),
        Value::QuoteDelimitedStringLiteral(quoted)
        | Value::NationalQuoteDelimitedStringLiteral(quoted) => Some(&quoted.value),
        Value::Number(..) | Value::Boolean(_) | Value::Null | Value::Placeholder(_) => None,
    }
}
