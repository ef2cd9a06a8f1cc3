//! Entry point of the binary. The code is in the library.

use std::process::ExitCode;

/// jemalloc returns the memory of a large case to the system; glibc's allocator keeps it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    gavel::cli::main()
}
