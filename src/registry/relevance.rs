//! Which `auto` skills have to do with what an agent is about.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::model::{Caller, Error, Mode};

use super::tools::is_offered;
use super::{RegisteredSkill, Registry};

/// Most characters of a context that are looked at.
const MAX_CONTEXT: usize = 16 << 10;

impl Registry {
    /// The skills of mode `auto` that share words with `context`, the best first.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `skills:read`.
    pub fn relevant(&self, caller: &Caller, context: &str, most: usize) -> Result<Vec<Arc<RegisteredSkill>>, Error> {
        let skills = self.newest(caller)?.into_iter().filter(|skill| is_offered(skill, Mode::Auto));
        let known: Vec<_> = skills.map(|skill| (words_of(&skill), skill)).collect();
        let context: String = context.chars().take(MAX_CONTEXT).collect();
        let asked: HashSet<String> = words(&context).into_iter().collect();
        let mut scored: Vec<_> = known.iter().map(|(words, skill)| (score(&asked, words, &known), skill)).collect();
        scored.retain(|(score, _)| *score > 0.0);
        scored.sort_by(|(a, one), (b, two)| b.total_cmp(a).then_with(|| one.skill.name.cmp(&two.skill.name)));
        Ok(scored.into_iter().take(most).map(|(_, skill)| Arc::clone(skill)).collect())
    }
}

/// The words of a skill, each with how much it says.
fn words_of(skill: &RegisteredSkill) -> HashMap<String, f64> {
    let skill = &skill.skill;
    let mut weights = HashMap::new();
    let mut add = |text: &str, weight: f64| {
        for word in words(text) {
            let known = weights.entry(word).or_insert(0.0_f64);
            *known = known.max(weight);
        }
    };
    add(skill.name.as_str(), 3.0);
    skill.tags.iter().for_each(|tag| add(tag.as_str(), 2.0));
    add(&skill.description, 1.0);
    for function in &skill.functions {
        add(&function.name, 1.0);
        add(&function.description, 1.0);
    }
    weights
}

/// How much a skill has to do with what is asked: a word that few skills have says more.
fn score(
    asked: &HashSet<String>,
    own: &HashMap<String, f64>,
    all: &[(HashMap<String, f64>, Arc<RegisteredSkill>)],
) -> f64 {
    let rarity = |word: &String| {
        let having = all.iter().filter(|(words, _)| words.contains_key(word)).count();
        #[expect(clippy::cast_precision_loss, reason = "a few thousand skills at most")]
        let share = (1 + all.len()) as f64 / having.max(1) as f64;
        share.ln()
    };
    asked.iter().filter_map(|word| own.get(word).map(|weight| weight * rarity(word))).sum()
}

/// The words of a text, in small letters. Of scripts that write no spaces, each two characters
/// that stand together.
fn words(text: &str) -> Vec<String> {
    let text = text.to_lowercase();
    let pieces = text.split(|c: char| !c.is_alphanumeric()).filter(|piece| !piece.is_empty());
    let mut words = Vec::new();
    for piece in pieces {
        let letters: Vec<char> = piece.chars().collect();
        if letters.iter().any(|c| is_unspaced(*c)) {
            words.extend(letters.windows(2).map(|pair| pair.iter().collect::<String>()));
            words.extend((letters.len() == 1).then(|| piece.to_owned()));
        } else if letters.len() > 2 && !COMMON.contains(&piece) {
            words.push(piece.to_owned());
        }
    }
    words
}

/// Words of every English text, which say nothing of what it is about.
const COMMON: &[&str] = &[
    "and", "are", "but", "can", "for", "from", "has", "have", "how", "into", "its", "not", "please", "that", "the",
    "then", "this", "use", "was", "what", "when", "which", "will", "with", "you", "your",
];

/// Whether the character is of a script without spaces between words: Thai to Khmer, and what
/// is written in Chinese, Japanese and Korean.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_scripts_with_and_without_spaces() {
        assert_eq!(words("Resize the IMAGES, please!"), ["resize", "images"]);
        assert_eq!(words("изменить размер"), ["изменить", "размер"]);
        assert_eq!(words("画像を縮小"), ["画像", "像を", "を縮", "縮小"]);
        assert_eq!(words("画"), ["画"]);
        assert_eq!(words("a an - ."), [""; 0]);
    }
}
