//! `{"text": "…"}` on stdin gives the number of its lines on stdout; exit codes say what is wrong.

use std::io::{self, Read};
use std::process::exit;

use serde::Deserialize;

/// Exit codes, as BSD's `sysexits` has them.
const BAD_DATA: i32 = 65;
const NO_INPUT: i32 = 66;

/// What the caller sends.
#[derive(Deserialize)]
struct Args {
    text: Option<String>,
}

fn main() {
    let mut input = String::new();
    let read = io::stdin().read_to_string(&mut input);
    let args = read
        .map_err(|error| error.to_string())
        .and_then(|_| serde_json::from_str::<Args>(&input).map_err(|error| error.to_string()));
    match args {
        Ok(Args { text: Some(text) }) => println!("{}", text.lines().count()),
        Ok(Args { text: None }) => fail(NO_INPUT, "there is no text"),
        Err(error) => fail(BAD_DATA, &error),
    }
}

fn fail(code: i32, why: &str) -> ! {
    let name = std::env::args().next().unwrap_or_default();
    eprintln!("{name}: {why}");
    exit(code)
}
