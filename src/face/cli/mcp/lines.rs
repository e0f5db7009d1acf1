//! Lines of stdin, none of them too long.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Longest line, in bytes: more than any key's arguments.
const LONGEST: usize = 80 << 20;

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line, without its end.
    Whole(Vec<u8>),
    /// A line of too many bytes, which were read and forgotten.
    TooLong,
    /// Nothing any more.
    End,
}

/// Reads the next line that has something in it.
pub(super) async fn next(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Line> {
    up_to(input, LONGEST).await
}

async fn up_to(input: &mut (impl AsyncBufRead + Unpin), longest: usize) -> io::Result<Line> {
    let (mut line, mut too_long) = (Vec::new(), false);
    loop {
        let ready = input.fill_buf().await?;
        if ready.is_empty() {
            return Ok(match (too_long, line.trim_ascii().is_empty()) {
                (true, _) => Line::TooLong,
                (false, true) => Line::End,
                (false, false) => Line::Whole(line),
            });
        }
        let end = ready.iter().position(|byte| *byte == b'\n');
        let piece = &ready[..end.unwrap_or(ready.len())];
        too_long |= line.len() + piece.len() > longest;
        if too_long {
            line = Vec::new();
        } else {
            line.extend_from_slice(piece);
        }
        let used = piece.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            if too_long {
                return Ok(Line::TooLong);
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Line::Whole(line));
            }
            line.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_one_by_one_and_a_long_one_is_left_out() {
        let text = format!("a\r\n\n \n{}\nbb\n{}\nlast", "x".repeat(9), "y".repeat(8));
        let mut input = tokio::io::BufReader::with_capacity(3, text.as_bytes());
        let whole = |text: &str| Line::Whole(text.into());
        for wanted in [whole("a\r"), Line::TooLong, whole("bb"), whole("yyyyyyyy"), whole("last"), Line::End, Line::End]
        {
            assert_eq!(up_to(&mut input, 8).await.unwrap(), wanted);
        }
    }
}
