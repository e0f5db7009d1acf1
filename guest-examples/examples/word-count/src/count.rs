//! The counting, which knows nothing of skills and so can be tested as plain Rust.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::Serialize;
use unicode_segmentation::UnicodeSegmentation;

/// What a text is made of, by the rules of Unicode (UAX #29).
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counts {
    pub(crate) lines: usize,
    pub(crate) sentences: usize,
    pub(crate) words: usize,
    /// Words that differ by more than upper and lower case.
    pub(crate) unique_words: usize,
    /// Characters as a reader sees them: a flag or an accented letter is one.
    pub(crate) characters: usize,
    /// The most frequent words in lower case; equal counts in alphabetical order.
    pub(crate) top: Vec<Frequency>,
}

/// A word and how often it occurs.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Frequency {
    pub(crate) word: String,
    pub(crate) count: usize,
}

/// Counts `text` and lists its `top` most frequent words.
pub(crate) fn count(text: &str, top: usize) -> Counts {
    let frequencies = frequencies(text);
    Counts {
        lines: text.lines().count(),
        sentences: text.unicode_sentences().count(),
        words: frequencies.values().sum(),
        unique_words: frequencies.len(),
        characters: text.graphemes(true).count(),
        top: most_frequent(frequencies, top),
    }
}

fn frequencies(text: &str) -> HashMap<String, usize> {
    let mut frequencies = HashMap::new();
    for word in text.unicode_words() {
        *frequencies.entry(word.to_lowercase()).or_default() += 1;
    }
    frequencies
}

fn most_frequent(frequencies: HashMap<String, usize>, top: usize) -> Vec<Frequency> {
    let mut all: Vec<_> = frequencies
        .into_iter()
        .map(|(word, count)| Frequency { word, count })
        .collect();
    all.sort_by(|a, b| (Reverse(a.count), &a.word).cmp(&(Reverse(b.count), &b.word)));
    all.truncate(top);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frequency(word: &str, count: usize) -> Frequency {
        Frequency {
            word: word.into(),
            count,
        }
    }

    #[test]
    fn an_empty_text_has_nothing() {
        let counts = count("", 10);
        assert_eq!((counts.lines, counts.words, counts.characters), (0, 0, 0));
        assert!(counts.top.is_empty());
    }

    #[test]
    fn words_are_counted_without_regard_to_case() {
        let counts = count("The cat. The hat!\nA cat?", 2);
        assert_eq!((counts.lines, counts.sentences), (2, 3));
        assert_eq!((counts.words, counts.unique_words), (6, 4));
        assert_eq!(counts.top, [frequency("cat", 2), frequency("the", 2)]);
    }

    #[test]
    fn a_character_is_what_a_reader_sees() {
        assert_eq!(count("e\u{301}\u{1f1e9}\u{1f1ea}", 0).characters, 2);
    }

    #[test]
    fn words_of_other_scripts_are_words() {
        assert_eq!(count("Привет, мир! naïve l'été", 0).words, 4);
    }
}
