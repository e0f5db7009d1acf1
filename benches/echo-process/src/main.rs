//! Gives its standard input back: the least a process per request can do.

use std::io::{Read, Result, Write};

fn main() -> Result<()> {
    let mut bytes = Vec::with_capacity(4096);
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    std::io::stdout().lock().write_all(&bytes)
}
