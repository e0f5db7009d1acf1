//! A program for WASI 0.3: it counts the bytes on stdin, and prints them backwards.

wit_bindgen::generate!({ path: "wit", world: "async-command", generate_all });

use exports::wasi::cli::run::Guest;
use wasi::cli::{stdin, stdout};

struct AsyncCommand;

impl Guest for AsyncCommand {
    async fn run() -> Result<(), ()> {
        let (input, read) = stdin::read_via_stream();
        let mut bytes = input.collect().await;
        read.await.map_err(drop)?;
        let count = bytes.len();
        bytes.reverse();
        let backwards = String::from_utf8_lossy(&bytes);
        let text = format!("{count} bytes, backwards: {backwards}");
        let (mut output, reader) = wit_stream::new();
        let written = stdout::write_via_stream(reader);
        let left = output.write_all(text.into_bytes()).await;
        drop(output);
        written.await.map_err(drop)?;
        if left.is_empty() { Ok(()) } else { Err(()) }
    }
}

export!(AsyncCommand);
