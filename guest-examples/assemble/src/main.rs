//! Turns the text of a component (`.wat`) into its binary form (`.wasm`).
//!
//! Runs on the machine that builds the guests; `scripts/guests` calls it for each
//! fixture that no compiler would write.

use std::env::args;
use std::error::Error;
use std::fs;
use std::process::ExitCode;

fn main() -> ExitCode {
    let paths: Vec<String> = args().skip(1).collect();
    let [from, to] = paths.as_slice() else {
        eprintln!("usage: assemble FROM.wat TO.wasm");
        return ExitCode::from(2);
    };
    match assemble(from, to) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Reads `from`, writes `to`. The error for a mistake in the text shows the line.
fn assemble(from: &str, to: &str) -> Result<(), Box<dyn Error>> {
    fs::write(to, wat::parse_file(from)?)?;
    Ok(())
}
