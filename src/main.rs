//! The `skillvisor` program; everything is in the library.

use std::process::ExitCode;

/// Each request makes and frees a few hundred small objects on several threads: this allocator
/// does that for half of what the C library's asks (docs/benchmarks.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    skillvisor::face::cli::main(std::env::args_os())
}
