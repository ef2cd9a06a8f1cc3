//! The schema's versions are embedded by the names of their files, so a new file builds the program again.
#![allow(clippy::print_stdout, reason = "how a build script speaks to cargo")]

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
