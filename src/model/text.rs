//! Cutting text to size.

/// Cuts `text` to at most `max_bytes`, between characters.
pub fn clip(text: &mut String, max_bytes: usize) {
    if text.len() > max_bytes {
        text.truncate(text.floor_char_boundary(max_bytes));
    }
}

/// `text` without control characters, and at most `max_bytes` long.
pub fn plain(text: &str, max_bytes: usize) -> String {
    let mut clean: String = text.chars().filter(|c| !c.is_control()).take(max_bytes).collect();
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
}
