//! The binary: everything is in the library.

use std::process::ExitCode;

/// One large case leaves nothing behind: glibc's own allocator keeps what was freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    gavel::cli::main()
}
