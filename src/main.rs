//! The `skillvisor` program; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    skillvisor::face::cli::main(std::env::args_os())
}
