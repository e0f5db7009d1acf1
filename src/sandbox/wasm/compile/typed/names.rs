//! Names of functions: short where they can be, longer where two would be the same.

use std::collections::{HashMap, HashSet};

use super::exports::Exported;

/// Longest name, in bytes, but for a number behind it.
const MAX_NAME: usize = 100;

/// A name for each function, in their order. The same exports always get the same names.
pub(super) fn assign(exported: &[Exported]) -> Vec<String> {
    let choices: Vec<Vec<String>> = exported.iter().map(choices).collect();
    let mut chosen = vec![0; choices.len()];
    loop {
        let mut uses: HashMap<&str, usize> = HashMap::new();
        for (choices, at) in choices.iter().zip(&chosen) {
            *uses.entry(&choices[*at]).or_default() += 1;
        }
        let mut changed = false;
        for (choices, at) in choices.iter().zip(&mut chosen) {
            if uses[choices[*at].as_str()] > 1 && *at + 1 < choices.len() {
                *at += 1;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let names = choices.into_iter().zip(chosen).map(|(mut choices, at)| choices.swap_remove(at)).collect();
    number(names)
}

/// What a function may be called, the shortest first.
fn choices(exported: &Exported) -> Vec<String> {
    let own = word(&exported.name);
    let mut choices = vec![own.clone()];
    let Some(instance) = &exported.instance else { return choices };
    let (path, version) = instance.split_once('@').map_or((instance.as_str(), None), |(path, v)| (path, Some(v)));
    let (package, interface) =
        path.rsplit_once('/').map_or((None, path), |(package, interface)| (Some(package), interface));
    choices.push(word(&format!("{interface}-{own}")));
    if let Some(package) = package {
        choices.push(word(&format!("{package}-{interface}-{own}")));
        if let Some(version) = version {
            choices.push(word(&format!("{package}-{interface}-{version}-{own}")));
        }
    }
    choices
}

/// The name in the letters of a function's name: `[method]counter.add-one` is `counter-add-one`,
/// `[constructor]counter` is `counter-new`.
fn word(name: &str) -> String {
    let (kind, name) = match name.strip_prefix('[').and_then(|name| name.split_once(']')) {
        Some((kind, name)) => (kind, name),
        None => ("", name),
    };
    let kept = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
    let spaced: String = name.chars().map(kept).collect();
    let mut parts: Vec<&str> = spaced.split_whitespace().collect();
    if kind.ends_with("constructor") {
        parts.push("new");
    }
    let mut word = parts.join("-");
    word.truncate(MAX_NAME);
    let word = word.trim_end_matches('-');
    if word.is_empty() { "function".into() } else { word.into() }
}

/// The names, the second of two equal ones with a number behind it.
fn number(names: Vec<String>) -> Vec<String> {
    let all: HashSet<String> = names.iter().cloned().collect();
    let mut taken: HashSet<String> = HashSet::new();
    let mut numbered = Vec::with_capacity(names.len());
    for name in names {
        let free = |name: &String| !taken.contains(name) && !all.contains(name);
        let name = if taken.contains(&name) {
            (2_usize..).map(|n| format!("{name}-{n}")).find(free).unwrap_or(name)
        } else {
            name
        };
        taken.insert(name.clone());
        numbered.push(name);
    }
    numbered
}
