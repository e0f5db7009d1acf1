//! `{"numbers": [1, 2, 3.5]}` on stdin gives `{"sum": 6.5, "mean": …}` on stdout.

use std::io::{self, Write};
use std::process::{ExitCode, exit};

use serde::{Deserialize, Serialize};

/// What the caller sends.
#[derive(Deserialize)]
struct Args {
    numbers: Vec<f64>,
}

/// What the caller gets.
#[derive(Serialize)]
struct Answer {
    sum: f64,
    mean: f64,
}

fn main() -> ExitCode {
    let args: Args = match serde_json::from_reader(io::stdin().lock()) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("the arguments are not as they should be: {error}");
            // Any code but 0 makes the run an error.
            exit(2);
        }
    };
    match print(&sum(&args.numbers)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn sum(numbers: &[f64]) -> Answer {
    let sum: f64 = numbers.iter().sum();
    #[expect(clippy::cast_precision_loss, reason = "there is no list that long")]
    let count = numbers.len().max(1) as f64;
    Answer {
        sum,
        mean: sum / count,
    }
}

fn print(answer: &Answer) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, answer)?;
    stdout.flush()
}
