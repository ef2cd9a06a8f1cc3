//! From a reply's text to a checked value.
