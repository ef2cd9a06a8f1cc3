//! What a KQL query reads, filters and aggregates. Tolerant: never refuses a text.
