//! Settings, and the files that settings name. Nothing here reads the environment by itself: it is handed in.

pub mod yaml;
