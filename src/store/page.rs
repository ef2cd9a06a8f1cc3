//! Lists by cursor: a page costs the same wherever it lies.

/// An opaque position in a list, URL-safe text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub String);

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The items, in the list's order.
    pub items: Vec<T>,
    /// Where the next page begins; `None` on the last.
    pub next_cursor: Option<Cursor>,
}
