//! Cutting text to size.

/// Cuts `text` to at most `max_bytes`, between characters.
pub fn clip(text: &mut String, max_bytes: usize) {
    if text.len() > max_bytes {
        text.truncate(text.floor_char_boundary(max_bytes));
    }
}

/// Whether what shows the character obeys it instead: one that moves the cursor, changes
/// colours, ends the line, or turns the direction of writing, so that a text looks like another.
pub fn steers(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}')
}

/// `text` without characters that [`steers`] names, and at most `max_bytes` long.
pub fn plain(text: &str, max_bytes: usize) -> String {
    let mut clean: String = text.chars().filter(|c| !steers(*c)).take(max_bytes).collect();
    clip(&mut clean, max_bytes);
    clean
}

/// What of a word that a caller sent a message repeats.
pub fn quotable(text: &str) -> String {
    plain(text, 80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters() {
        let mut text = String::from("aéé");
        clip(&mut text, 4);
        assert_eq!(text, "aé");
        assert_eq!(plain("a\u{1b}[1mb\n", 3), "a[1");
    }

    #[test]
    fn what_turns_the_direction_or_ends_the_line_does_not_come_through() {
        assert_eq!(plain("a\u{202e}b\u{2028}c\u{2069}d\u{61c}\u{200f}é", 100), "abcdé");
    }
}
