//! Rebuilds the program when a migration is added, because migrations are embedded by file name.
#![allow(clippy::print_stdout, reason = "how a build script speaks to cargo")]

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
