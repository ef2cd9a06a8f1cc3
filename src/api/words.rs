//! Counts in sentences that people read.

use std::fmt::Display;

/// So many of something: `1 score`, `2 scores`. For words that take an s.
pub(super) fn counted<N: Display + PartialEq + From<u8>>(n: N, one: &str) -> String {
    let plural = if n == N::from(1) { "" } else { "s" };
    format!("{n} {one}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(counted(1_i64, "score"), "1 score");
        assert_eq!(counted(0_u64, "score"), "0 scores");
        assert_eq!(counted(2_i64, "item"), "2 items");
    }
}
