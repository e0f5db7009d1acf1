//! An interceptor. Before a run it refuses arguments with a word that must not leave the house, and tells the skill
//! that it has looked; after the run it takes card numbers out of everything that came out.

wit_bindgen::generate!({ path: "../../../wit", world: "interceptor" });

use exports::skillvisor::skill::interception::Guest;
use serde_json::{Map, Value, json};

/// The word that must not leave the house.
const WORD: &str = "bluebird";
/// Digits of a card number, at least.
const DIGITS: usize = 13;

struct Interceptor;

impl Guest for Interceptor {
    fn before(event: String) -> Result<String, String> {
        let event: Value = serde_json::from_str(&event).map_err(|error| error.to_string())?;
        let answer = if event["data"]["args"].to_string().contains(WORD) {
            json!({ "action": "reject", "reason": "the arguments name a project that is not public" })
        } else {
            json!({ "action": "continue", "context": { "checked": true } })
        };
        Ok(answer.to_string())
    }

    fn after(event: String) -> Result<String, String> {
        let event: Value = serde_json::from_str(&event).map_err(|error| error.to_string())?;
        let data = &event["data"];
        let mut answer = Map::new();
        for name in ["output", "stdout", "stderr"] {
            let mut value = data[name].clone();
            if clean(&mut value) {
                answer.insert(name.into(), value);
            }
        }
        let mut message = data["error"]["message"].clone();
        if clean(&mut message) {
            answer.insert("error".into(), json!({ "message": message }));
        }
        let action = if answer.is_empty() {
            "continue"
        } else {
            "replace"
        };
        answer.insert("action".into(), action.into());
        Ok(Value::Object(answer).to_string())
    }
}

/// Takes card numbers out of every text in a value; says whether there were any.
fn clean(value: &mut Value) -> bool {
    match value {
        Value::String(text) => {
            let new = without_cards(text);
            let found = new != *text;
            *text = new;
            found
        }
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |found, item| clean(item) || found),
        Value::Object(members) => members
            .values_mut()
            .fold(false, |found, item| clean(item) || found),
        _ => false,
    }
}

fn without_cards(text: &str) -> String {
    let mut out = String::new();
    let mut digits = String::new();
    for c in text.chars().map(Some).chain([None]) {
        if let Some(c) = c.filter(char::is_ascii_digit) {
            digits.push(c);
            continue;
        }
        out.push_str(if digits.len() >= DIGITS {
            "[card]"
        } else {
            &digits
        });
        digits.clear();
        out.extend(c);
    }
    out
}

export!(Interceptor);
