//! Regular expressions: how large one becomes, and whether matching it can step back.

use super::{MAX_PATTERN_BYTES, MAX_PATTERN_DEPTH, MAX_PATTERN_STATES};

/// Estimated states of a class of characters, spelled in UTF-8.
const CLASS_STATES: u64 = 8;
/// Estimated states of a class by Unicode property.
const PROPERTY_STATES: u64 = 64;

/// What one regular expression costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// Estimated automaton states.
    pub(super) states: u64,
    /// Whether it has a lookaround or a backreference, which only a matcher that steps back has.
    pub(super) steps_back: bool,
    /// Whether that matcher may step back again and again. It does not where all lookarounds
    /// stand at the start, as in `^(?!\s*$).+`: each is looked at once.
    pub(super) again: bool,
}

/// Estimates what `pattern` costs, without understanding all of it: what is no regular
/// expression is found when it is compiled.
///
/// # Errors
///
/// What is wrong with it: too long, too deep, too large, or not of ECMA-262.
pub(super) fn estimate(pattern: &str) -> Result<Pattern, String> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(format!("a pattern is at most {MAX_PATTERN_BYTES} bytes"));
    }
    let scan = Scan::of(pattern)?;
    let states = scan.open.iter().fold(0u64, |sum, group| sum.saturating_add(group.states));
    let steps_back = scan.steps_back;
    let again = steps_back && !looks_ahead_once(pattern)?;
    if is_count_of_one_class(pattern) && scan.counted == 1 {
        return Ok(Pattern { states: CLASS_STATES, steps_back, again });
    }
    if states > MAX_PATTERN_STATES && steps_back {
        return Err(String::from("the pattern repeats too much to have a lookaround or backreference"));
    }
    Ok(Pattern { states: states.min(MAX_PATTERN_STATES), steps_back, again })
}

/// Whether `pattern` is `^`, lookaheads, and then nothing that steps back.
fn looks_ahead_once(pattern: &str) -> Result<bool, String> {
    let Some(mut rest) = pattern.strip_prefix('^') else { return Ok(false) };
    while let Some(ahead) = rest.strip_prefix("(?=").or_else(|| rest.strip_prefix("(?!")) {
        let mut scan = Scan::new(ahead);
        while !scan.closed && scan.step()? {}
        if scan.steps_back {
            return Ok(false);
        }
        rest = scan.rest;
    }
    let scan = Scan::of(rest)?;
    Ok(!scan.steps_back && !scan.either)
}

/// Whether `pattern` is one class of characters, counted, from start to end, such as
/// `^[\s\S]{0,100000}$`: the validator counts these and builds no automaton.
fn is_count_of_one_class(pattern: &str) -> bool {
    let Some(body) = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix("}$")) else { return false };
    let Some((class, count)) = body.rsplit_once('{') else { return false };
    let counts = count.bytes().all(|b| b.is_ascii_digit() || b == b',');
    let inner = class.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    counts && (class == "." || inner.is_some_and(|inner| !inner.contains(['[', ']'])))
}

#[derive(Default)]
struct Group {
    /// States of the group so far.
    states: u64,
    /// States of its last atom, which are among them.
    last: u64,
}

impl Group {
    fn atom(&mut self, states: u64) {
        self.states = self.states.saturating_add(states);
        self.last = states;
    }

    /// Makes `times` of the last atom.
    fn repeat(&mut self, times: u64) {
        let more = self.last.saturating_mul(times.max(1) - 1);
        self.states = self.states.saturating_add(more);
        self.last = self.last.saturating_add(more);
    }
}

struct Scan<'p> {
    rest: &'p str,
    open: Vec<Group>,
    steps_back: bool,
    /// Counts `{…}` that were read.
    counted: usize,
    /// Whether there is a `|` outside all groups.
    either: bool,
    /// Whether there was a `)` more than `(`.
    closed: bool,
}

impl<'p> Scan<'p> {
    fn new(pattern: &'p str) -> Self {
        let open = vec![Group::default()];
        Self { rest: pattern, open, steps_back: false, counted: 0, either: false, closed: false }
    }

    /// Reads all of `pattern`.
    fn of(pattern: &'p str) -> Result<Self, String> {
        let mut scan = Self::new(pattern);
        while scan.step()? {}
        Ok(scan)
    }

    /// Reads one token; `false` at the end.
    fn step(&mut self) -> Result<bool, String> {
        let Some(c) = self.rest.chars().next() else { return Ok(false) };
        self.rest = &self.rest[c.len_utf8()..];
        match c {
            '\\' => self.escape()?,
            '[' => self.class(),
            '(' => self.group()?,
            ')' if self.open.len() > 1 => {
                let states = self.open.pop().map_or(0, |group| group.states);
                self.last().atom(states);
            }
            ')' => self.closed = true,
            '*' | '+' | '?' => {}
            '|' => {
                self.either |= self.open.len() == 1;
                self.last().atom(1);
            }
            '{' => match self.count() {
                Some(times) => self.last().repeat(times),
                None => self.last().atom(1),
            },
            '.' => self.last().atom(CLASS_STATES),
            _ => self.last().atom(1),
        }
        Ok(true)
    }

    fn last(&mut self) -> &mut Group {
        if self.open.is_empty() {
            self.open.push(Group::default());
        }
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    fn escape(&mut self) -> Result<(), String> {
        let Some(c) = self.rest.chars().next() else { return Ok(()) };
        self.rest = &self.rest[c.len_utf8()..];
        match c {
            '1'..='9' => self.steps_back = true,
            'k' if self.rest.starts_with('<') => self.steps_back = true,
            'g' | 'G' | 'K' | 'R' | 'X' => return Err(format!("\\{c} is no escape of ECMA-262")),
            _ => {}
        }
        let braced = matches!(c, 'p' | 'P' | 'u' | 'x').then(|| self.rest.strip_prefix('{')).flatten();
        if let Some((_, rest)) = braced.and_then(|rest| rest.split_once('}')) {
            self.rest = rest;
        }
        self.last().atom(match c {
            'p' | 'P' => PROPERTY_STATES,
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => CLASS_STATES,
            _ => 1,
        });
        Ok(())
    }

    fn class(&mut self) {
        let mut escaped = false;
        let end = self.rest.find(|c| {
            let ends = c == ']' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let (class, rest) = self.rest.split_at(end.map_or(self.rest.len(), |end| end + 1));
        self.rest = rest;
        let by_property = class.contains("\\p") || class.contains("\\P");
        self.last().atom(if by_property { PROPERTY_STATES } else { CLASS_STATES });
    }

    fn group(&mut self) -> Result<(), String> {
        if let Some(kind) = self.rest.strip_prefix('?') {
            let flags = kind.trim_start_matches(|c: char| c.is_ascii_lowercase() || c == '-');
            if ["=", "!", "<=", "<!"].iter().any(|mark| kind.starts_with(mark)) {
                self.steps_back = true;
            } else if !(kind.starts_with('<') || kind.starts_with("P<") || flags.starts_with([':', ')'])) {
                return Err(String::from("the pattern has a group that ECMA-262 does not have"));
            }
        }
        if self.open.len() > MAX_PATTERN_DEPTH {
            return Err(format!("the pattern nests groups deeper than {MAX_PATTERN_DEPTH}"));
        }
        self.open.push(Group::default());
        Ok(())
    }

    /// Reads what follows `{` if it is a count, and gives the most repetitions it asks for.
    fn count(&mut self) -> Option<u64> {
        let (count, rest) = self.rest.split_once('}')?;
        let (least, most) = count.split_once(',').unwrap_or((count, count));
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if least.is_empty() || !digits(least) || !digits(most) {
            return None;
        }
        self.rest = rest;
        self.counted += 1;
        let number = |text: &str| text.parse().unwrap_or(u64::MAX);
        Some(if most.is_empty() { number(least).saturating_add(1) } else { number(least).max(number(most)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(pattern: &str) -> u64 {
        estimate(pattern).unwrap().states
    }

    #[test]
    fn repetition_multiplies_and_counts_of_one_class_do_not() {
        assert_eq!(states("abc"), 3);
        assert_eq!(states("a{10}"), 10);
        assert_eq!(states("(ab){2,5}c"), 11);
        assert_eq!(states("((a{10}){10}){10}"), 1_000);
        assert_eq!(states("((.{1,1000}){1000}){1000}"), MAX_PATTERN_STATES);
        assert_eq!(states(r"^[\s\S]{1,262144}$"), CLASS_STATES);
        assert_eq!(states("^.{1,2000}$"), CLASS_STATES);
        assert!(states("x.{1,2000}") > 10_000);
        assert_eq!(states(r"\u{1F600}"), 1);
        assert_eq!(states("a{,3}"), 5, "not a count in ECMA-262");
    }

    #[test]
    fn lookarounds_and_backreferences_step_back_and_other_groups_do_not() {
        for pattern in ["^(?!x)", "(?=a)b", "(?<=a)b", "(?<!a)b", r"(a)\1", r"(?<n>a)\k<n>"] {
            assert!(estimate(pattern).unwrap().steps_back, "{pattern}");
        }
        for pattern in ["(?:a)", "(?<n>a)", "(?i)a", "(?i:a)", "(?P<n>a)", r"[(?=]", r"\(?=", r"\0", r"[\1]"] {
            assert!(!estimate(pattern).unwrap().steps_back, "{pattern}");
        }
    }

    #[test]
    fn lookaheads_at_the_start_are_looked_at_once() {
        for pattern in [r"^(?!\s*$).+", r"^(?=.*[A-Z])(?=.*\d)[\s\S]{8,64}$", "^(?!(?:a|[)])b)(a|b)*c"] {
            assert!(!estimate(pattern).unwrap().again, "{pattern}");
        }
        for pattern in ["(?!x)a", "^(?!(?=a)b)c", "^(?=a)b|c", "^((?!a).)*$", r"^(?=(a))\1", "^(?<!a)b", "^a(?=b)"] {
            assert!(estimate(pattern).unwrap().again, "{pattern}");
        }
    }

    #[test]
    fn what_is_too_long_too_deep_or_foreign_is_refused() {
        for pattern in [
            "a".repeat(1_025),
            "(".repeat(60),
            "(?=a)((.{100}){100}){100}".into(),
            r"(?=a)\g<0>".into(),
            "(?(1)a|b)".into(),
            "(?R)".into(),
            "(?>a)".into(),
            "(?#c)".into(),
            r"\Ka".into(),
        ] {
            assert!(estimate(&pattern).is_err(), "{pattern}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_estimate_panic(text in r"[\\(){}\[\]?=!<>|^$.*+,a0-9gkpux-é]{0,40}") {
            let _ = estimate(&text);
        }
    }
}
