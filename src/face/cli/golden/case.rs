//! What a golden case says, and how it is compared with what came.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::{Ceilings, Error, Execution, Status};

use super::super::exit::{Exit, Failure};

/// Characters of a value that are shown where two differ.
const SHOWN: usize = 2000;

/// One case, as it is written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Case {
    /// What it shows, in a few words.
    pub(super) name: String,
    /// The arguments.
    #[serde(default = "nothing")]
    pub(super) args: Value,
    /// Files of the workspace before the run, by their paths.
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
    /// The ceilings of the calling key; those of a new key where nothing is said.
    #[serde(default)]
    pub(super) ceilings: Ceilings,
    /// What must come.
    expect: Expect,
    /// The file that it stands in.
    #[serde(skip)]
    pub(super) file: String,
}

/// What must come: exactly one of `output`, `contains` and `error`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Expect {
    /// All of the output.
    output: Option<Value>,
    /// A part of the output: objects may have more members, everything else is the same.
    contains: Option<Value>,
    /// The code of the run's error, or of what kept it from becoming a run.
    error: Option<String>,
    /// The skill's own code, where that is `skill_error`.
    skill_error: Option<String>,
    /// Files of the workspace after the run: their text, or null for what must not be there.
    files: BTreeMap<String, Option<String>>,
}

/// How a case went.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) file: String,
    pub(super) name: String,
    pub(super) problem: Option<String>,
    pub(super) duration_ms: f64,
}

impl Told {
    pub(super) fn to_json(&self) -> Value {
        let passed = self.problem.is_none();
        let mut told =
            json!({ "file": self.file, "name": self.name, "passed": passed, "durationMs": self.duration_ms });
        if let Some(problem) = &self.problem {
            told["problem"] = Value::from(problem.as_str());
        }
        told
    }
}

fn nothing() -> Value {
    json!({})
}

/// The cases of a directory, in the order of the files' names.
pub(super) fn read(dir: &Path) -> Result<Vec<Case>, Failure> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Failure::unreadable(dir, &error)),
    };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "json"));
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        cases.extend(read_file(&file)?);
    }
    Ok(cases)
}

fn read_file(file: &Path) -> Result<Vec<Case>, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| Failure::unreadable(file, &error))?;
    let wrong = |why: String| Failure::new(Exit::Usage, "bad_case", format!("{}: {why}", file.display()));
    let is_list = text.trim_start().starts_with('[');
    let read = if is_list { serde_json::from_str(&text) } else { serde_json::from_str(&text).map(|case| vec![case]) };
    let mut cases: Vec<Case> = read.map_err(|error| wrong(error.to_string()))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    for case in &mut cases {
        case.check().map_err(|why| wrong(format!("{:?}: {why}", case.name)))?;
        name.as_ref().clone_into(&mut case.file);
    }
    Ok(cases)
}

impl Case {
    /// Refuses a case that cannot fail, or says two things.
    fn check(&self) -> Result<(), &'static str> {
        let expect = &self.expect;
        let wanted = [expect.output.is_some(), expect.contains.is_some(), expect.error.is_some()];
        if wanted.into_iter().filter(|is_some| *is_some).count() != 1 {
            return Err("`expect` needs one of `output`, `contains` and `error`");
        }
        if expect.skill_error.is_some() && expect.error.as_deref() != Some("skill_error") {
            return Err("`skillError` goes with `\"error\": \"skill_error\"`");
        }
        if self.files.keys().chain(expect.files.keys()).any(|path| !is_below(path)) {
            return Err("paths of `files` lie below the workspace");
        }
        Ok(())
    }

    /// What is wrong with a run.
    pub(super) fn problem_of_run(&self, execution: &Execution) -> Option<String> {
        let expect = &self.expect;
        let output = execution.output.as_ref().and_then(|output| serde_json::from_str(output.get()).ok());
        let output: Value = output.unwrap_or_default();
        match (&execution.error, execution.status) {
            (Some(error), _) => {
                let own = error.detail.as_ref().and_then(|detail| detail.get("code")).and_then(Value::as_str);
                let said = match own {
                    Some(own) => format!("{} ({own}): {}", error.code.as_str(), error.message),
                    None => format!("{}: {}", error.code.as_str(), error.message),
                };
                let Some(wanted) = &expect.error else { return Some(format!("the run ended with {said}")) };
                let is_it = wanted == error.code.as_str();
                let is_own = expect.skill_error.as_ref().is_none_or(|wanted| own == Some(wanted.as_str()));
                (!is_it || !is_own).then(|| {
                    let own = expect.skill_error.as_ref().map(|own| format!(" ({own})")).unwrap_or_default();
                    format!("expected the error {wanted}{own}; the run ended with {said}")
                })
            }
            (None, Status::Success) => self.problem_of_output(&output),
            (None, status) => Some(format!("the run ended as {status:?}")),
        }
    }

    fn problem_of_output(&self, output: &Value) -> Option<String> {
        let expect = &self.expect;
        if let Some(wanted) = &expect.error {
            return Some(format!("expected the error {wanted}; the output is {}", shown(output)));
        }
        let (is_it, wanted) = match (&expect.output, &expect.contains) {
            (Some(whole), _) => (whole == output, whole),
            (None, Some(part)) => (contains(output, part), part),
            (None, None) => return None,
        };
        (!is_it).then(|| format!("expected {}\ncame     {}", shown(wanted), shown(output)))
    }

    /// What is wrong with what kept it from becoming a run.
    pub(super) fn problem_of_refusal(&self, error: &Error) -> Option<String> {
        let code = error.code.as_str();
        (self.expect.error.as_deref() != Some(code))
            .then(|| format!("it did not become a run: {code}: {}", error.detail))
    }

    /// What is wrong with the files of its workspace.
    pub(super) fn problem_of_files(&self, workspace: &Path) -> Option<String> {
        self.expect.files.iter().find_map(|(path, wanted)| {
            let there = std::fs::read(workspace.join(path)).ok();
            let there = there.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            (there != *wanted).then(|| {
                let wanted = shown(&json!(wanted));
                format!("file {path}: expected {wanted}\ncame     {}", shown(&json!(there)))
            })
        })
    }
}

fn is_below(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

/// Whether a value has all that a part of it names.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, part)| whole.get(name).is_some_and(|whole| contains(whole, part)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| contains(whole, part))
        }
        _ => whole == part,
    }
}

fn shown(value: &Value) -> String {
    value.to_string().chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<Case>, Failure> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.json"), text).unwrap();
        std::fs::write(dir.path().join("notes.txt"), "not a case").unwrap();
        read(dir.path())
    }

    #[test]
    fn a_file_has_one_case_or_several_and_each_can_fail() {
        let one = r#"{"name":"a","expect":{"output":1}}"#;
        assert_eq!(read_text(one).unwrap()[0].args, json!({}));
        assert_eq!(read_text(&format!("[{one},{one}]")).unwrap().len(), 2);
        assert!(read(Path::new("/nonexistent/tests")).unwrap().is_empty());
        for bad in [
            "",
            "{",
            r#"{"name":"a"}"#,
            r#"{"name":"a","expect":{}}"#,
            r#"{"name":"a","expect":{"output":1,"error":"trap"}}"#,
            r#"{"name":"a","expect":{"output":1,"skillError":"x"}}"#,
            r#"{"name":"a","expected":{"output":1}}"#,
            r#"{"name":"a","files":{"../x":""},"expect":{"output":1}}"#,
            r#"{"name":"a","expect":{"output":1,"files":{"/x":null}}}"#,
        ] {
            assert_eq!(read_text(bad).unwrap_err().exit, Exit::Usage, "{bad}");
        }
    }

    #[test]
    fn a_part_of_an_output_is_found_in_it() {
        let whole = json!({ "a": 1, "b": [{ "c": 2, "d": 3 }] });
        for part in [json!({}), json!({ "a": 1 }), json!({ "b": [{ "c": 2 }] })] {
            assert!(contains(&whole, &part), "{part}");
        }
        for part in [json!({ "x": 1 }), json!({ "a": 2 }), json!({ "b": [] }), json!([]), json!({ "b": [{ "c": 3 }] })]
        {
            assert!(!contains(&whole, &part), "{part}");
        }
    }
}
