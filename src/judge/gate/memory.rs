//! The in-process gate.
