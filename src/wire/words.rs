//! Counts and shares in sentences that people read, the same in bodies, on pages and on the command line.

/// A number with its thousands apart.
pub fn grouped(n: impl TryInto<i128>) -> String {
    // No count is larger.
    let n = n.try_into().unwrap_or(i128::MAX);
    let digits = n.unsigned_abs().to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if n < 0 { format!("-{text}") } else { text }
}

/// So many of something: `1 score`, `1,200 scores`. For words that take an s.
pub fn counted(n: impl TryInto<i128>, one: &str) -> String {
    let n = n.try_into().unwrap_or(i128::MAX);
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {one}{plural}", grouped(n))
}

/// A share of 0-1 as a percentage with at most one decimal: `92.5%`.
pub fn percent(share: f64) -> String {
    format!("{}%", (share * 1000.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural_and_thousands_stand_apart() {
        for (n, said) in [
            (0, "0 scores"),
            (1, "1 score"),
            (1_200, "1,200 scores"),
            (-1_000_000, "-1,000,000 scores"),
        ] {
            assert_eq!(counted(n, "score"), said);
        }
    }

    #[test]
    fn a_percentage_has_a_decimal_where_it_has_one() {
        for (share, said) in [(0.9254, "92.5%"), (1.0, "100%"), (0.0, "0%")] {
            assert_eq!(percent(share), said);
        }
    }
}
