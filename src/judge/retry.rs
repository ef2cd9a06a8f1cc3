//! What follows from an error class: a pure decision.
