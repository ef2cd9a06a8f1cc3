//! Providers and their wire types: one folder each.
