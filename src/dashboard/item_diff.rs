//! Word diff of generated against expected text. Escapes both texts, so the resulting HTML is safe.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use super::markdown::escaped;

/// Time limit of a diff. After it, the diff is correct but may not be minimal.
const DIFF_TIME: Duration = Duration::from_millis(200);
/// Longer texts are shown without a diff, bytes.
const MAX_DIFF_BYTES: usize = 64 << 10;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sides {
    /// With `<del>` around text missing in the other.
    pub(super) expected: String,
    /// With `<ins>` around text missing in the other.
    pub(super) generated: String,
    pub(super) same: bool,
}

pub(super) fn sides(expected: &str, generated: &str) -> Sides {
    if expected.len().max(generated.len()) > MAX_DIFF_BYTES {
        return Sides {
            expected: escaped(expected),
            generated: escaped(generated),
            same: expected == generated,
        };
    }
    let diff = TextDiff::configure()
        .timeout(DIFF_TIME)
        .diff_words(expected, generated);
    let (mut left, mut right) = (Marked::new("del"), Marked::new("ins"));
    for change in diff.iter_all_changes() {
        match change.tag() {
            ChangeTag::Equal => {
                left.plain(change.value());
                right.plain(change.value());
            }
            ChangeTag::Delete => left.marked(change.value()),
            ChangeTag::Insert => right.marked(change.value()),
        }
    }
    Sides {
        expected: left.end(),
        generated: right.end(),
        same: expected == generated,
    }
}

/// HTML builder that merges adjacent text with the same tag.
struct Marked {
    tag: &'static str,
    html: String,
    open: bool,
}

impl Marked {
    fn new(tag: &'static str) -> Self {
        Self {
            tag,
            html: String::new(),
            open: false,
        }
    }

    fn plain(&mut self, text: &str) {
        self.close();
        self.html.push_str(&escaped(text));
    }

    /// Whitespace-only changes aren't marked, because they have no meaning in a query.
    fn marked(&mut self, text: &str) {
        if !self.open && !text.trim().is_empty() {
            self.html.push_str(&format!("<{}>", self.tag));
            self.open = true;
        }
        self.html.push_str(&escaped(text));
    }

    fn close(&mut self) {
        if self.open {
            self.html.push_str(&format!("</{}>", self.tag));
            self.open = false;
        }
    }

    fn end(mut self) -> String {
        self.close();
        self.html
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_words_are_marked() {
        let found = sides("T | where a > 1 | count", "T | where b > 1 | take 2");
        assert_eq!(
            found.expected,
            "T | where <del>a</del> &gt; 1 | <del>count</del>"
        );
        assert_eq!(
            found.generated,
            "T | where <ins>b</ins> &gt; 1 | <ins>take 2</ins>"
        );
        assert!(!found.same && sides("T", "T").same);
        let spaced = sides("T | count", "T\n| count");
        assert_eq!(spaced.expected, "T | count");
        assert!(!spaced.generated.contains("<ins>"));
    }

    #[test]
    fn diff_escapes_markup() {
        let found = sides("<b>x</b> & y", "<i onclick=\"1\">");
        for side in [&found.expected, &found.generated] {
            assert!(!side.contains("<b>") && !side.contains("<i "), "{side}");
        }
        let long = sides(&"<p> ".repeat(30_000), "");
        assert!(!long.expected.contains("<p>") && !long.expected.contains("<del>"));
    }
}
