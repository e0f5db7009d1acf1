//! How a command ends: its exit code, and what a failure says.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::config::ConfigError;
use crate::model::{Code, Error, FieldError};

/// The exit codes of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    Success = 0,
    RunEnded = 1,
    Usage = 2,
    NotAllowed = 3,
    NotFound = 4,
    Conflict = 5,
    Invalid = 6,
    Busy = 7,
    Unreachable = 8,
    Locked = 9,
    Internal = 70,
    Interrupted = 130,
}

/// The exit codes as `--help` lists them.
pub(super) const EXIT_CODES_HELP: &str = "\
Exit codes:
  0   success
  1   the run ended otherwise, or a check of `doctor` or a case of `test` failed
  2   usage or setting
  3   no key, or one that may not do this (401, 403)
  4   not found
  5   conflict
  6   invalid (400, 413, 415, 422)
  7   busy or full, try again (408, 429, 503, 507)
  8   server not reached
  9   data directory locked
  70  internal error
  130 interrupted";

impl Exit {
    const ALL: &'static [Self] = &[
        Self::Success,
        Self::RunEnded,
        Self::Usage,
        Self::NotAllowed,
        Self::NotFound,
        Self::Conflict,
        Self::Invalid,
        Self::Busy,
        Self::Unreachable,
        Self::Locked,
        Self::Internal,
        Self::Interrupted,
    ];

    /// The exit code for a code of ours.
    pub(super) fn of(code: Code) -> Self {
        let wanted = code.row().exit;
        Self::ALL.iter().copied().find(|exit| *exit as u8 == wanted).unwrap_or(Self::Internal)
    }

    /// The exit code for an HTTP status whose body says nothing.
    pub(super) fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Success,
            401 | 403 => Self::NotAllowed,
            404 => Self::NotFound,
            409 => Self::Conflict,
            400..=499 if !matches!(status, 408 | 429) => Self::Invalid,
            408 | 429 | 503 | 507 => Self::Busy,
            502 | 504 => Self::Unreachable,
            _ => Self::Internal,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(super) struct Failure {
    /// How the process ends.
    pub(super) exit: Exit,
    /// A stable word for it: a code of the API, or one of the command line's own.
    pub(super) code: String,
    /// What is wrong.
    pub(super) detail: String,
    /// Each wrong place in the input.
    pub(super) fields: Vec<FieldError>,
    /// What to do next.
    pub(super) hint: Option<String>,
    /// The problem as the server told it.
    problem: Option<Box<Value>>,
    /// Everything has been said already.
    pub(super) told: bool,
}

impl Failure {
    /// A failure with nothing but a text.
    pub(super) fn new(exit: Exit, code: &str, detail: impl Into<String>) -> Self {
        Self {
            exit,
            code: code.to_owned(),
            detail: detail.into(),
            fields: Vec::new(),
            hint: None,
            problem: None,
            told: false,
        }
    }

    /// The command was called wrongly.
    pub(super) fn usage(detail: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", detail)
    }

    /// A file of the caller's that cannot be read.
    pub(super) fn unreadable(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::usage(format!("cannot read {}: {error}", path.display()))
    }

    /// No server answered, or something that is none.
    pub(super) fn unreachable(detail: impl Into<String>) -> Self {
        Self::new(Exit::Unreachable, "unreachable", detail)
    }

    /// Something of ours broke.
    pub(super) fn internal(detail: impl Into<String>) -> Self {
        Self::new(Exit::Internal, Code::Internal.as_str(), detail)
    }

    /// The end with an exit code and without a word: it has been said, or nobody listens.
    pub(super) fn silent(exit: Exit) -> Self {
        Self { told: true, ..Self::new(exit, "", "") }
    }

    /// What an API answer that is no success says.
    pub(super) fn answered(status: u16, retry_after: Option<&str>, body: &str) -> Self {
        let problem: Value = serde_json::from_str(body).unwrap_or_default();
        let Some(name) = problem.get("code").and_then(Value::as_str) else {
            let detail = format!("the server answered {status} without saying why");
            return Self::new(Exit::of_status(status), "http", detail);
        };
        let exit = Code::from_name(name).map_or_else(|| Exit::of_status(status), Exit::of);
        let text = |key| problem.get(key).and_then(Value::as_str);
        let detail = text("detail").or_else(|| text("title")).unwrap_or(name).to_owned();
        Self {
            fields: fields_of(&problem),
            hint: hint(name, &detail, retry_after),
            problem: Some(Box::new(problem.clone())),
            ..Self::new(exit, name, detail)
        }
    }

    /// The same failure, with what to do next.
    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same failure, with what was asked for where that is not there: the server gives the same words
    /// for all that is absent.
    #[must_use]
    pub(super) fn about(mut self, reference: &str) -> Self {
        if ["no such skill", "no such function"].contains(&self.detail.as_str()) {
            self.detail = format!("{}: {}", self.detail, super::table::one_line(reference));
        }
        self
    }

    /// The same failure, with more about each wrong place for people.
    #[must_use]
    pub(super) fn places(mut self, more: impl Fn(&str) -> Option<String>) -> Self {
        for field in &mut self.fields {
            if let Some(more) = more(&field.pointer) {
                let place = if field.pointer.is_empty() { "the whole" } else { &field.pointer };
                field.pointer = format!("{place} ({more})");
            }
        }
        self
    }

    /// The failure as a problem object: the server's own, or one like it.
    pub(super) fn to_problem(&self) -> Value {
        self.problem.as_deref().cloned().unwrap_or_else(|| {
            let mut problem = json!({ "title": "command failed", "detail": self.detail, "code": self.code });
            if !self.fields.is_empty() {
                let errors =
                    self.fields.iter().map(|field| json!({ "pointer": field.pointer, "detail": field.detail }));
                problem["errors"] = errors.collect();
            }
            problem
        })
    }

    /// The failure in lines for people.
    pub(super) fn to_text(&self) -> String {
        let mut lines = vec![format!("error: {}", self.detail)];
        for field in &self.fields {
            let place = if field.pointer.is_empty() { "the whole input" } else { &field.pointer };
            let why = if field.detail == self.detail { String::new() } else { format!(": {}", field.detail) };
            lines.push(format!("  at {place}{why}"));
        }
        lines.push(format!("  code: {}", self.code));
        lines.extend(self.hint.iter().map(|hint| format!("hint: {hint}")));
        lines.join("\n")
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new(Exit::Usage, "invalid_setting", error.to_string())
            .hint("`skillvisor serve --help` lists every setting; config.example.toml explains them")
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let detail = match &error.source {
            // The operator's own terminal may know what callers may not.
            Some(source) => format!("{}: {source}", error.detail),
            None => error.detail.clone(),
        };
        let retry_after = error.retry_after_s.map(|seconds| seconds.to_string());
        Self {
            fields: error.fields,
            hint: hint(error.code.as_str(), &error.detail, retry_after.as_deref()),
            ..Self::new(Exit::of(error.code), error.code.as_str(), detail)
        }
    }
}

/// The wrong places that a problem object lists.
fn fields_of(problem: &Value) -> Vec<FieldError> {
    let errors = problem.get("errors").and_then(Value::as_array);
    let text = |error: &Value, key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let field = |error: &Value| FieldError::new(text(error, "pointer"), text(error, "detail"));
    errors.map(|errors| errors.iter().map(field).collect()).unwrap_or_default()
}

/// What usually helps against a code.
fn hint(code: &str, detail: &str, retry_after: Option<&str>) -> Option<String> {
    let hint = match Code::from_name(code)? {
        Code::Unauthenticated => "set SKILLVISOR_KEY or give --key-file FILE; `skillvisor keys list` shows the keys",
        Code::InsufficientScope => "an admin makes a key with that scope: `skillvisor keys create NAME --scope SCOPE`",
        Code::NotFound => not_found(detail),
        Code::SkillDisabled => {
            "`skillvisor enable REF`, or `skillvisor mode REF on` where its mode is `off`, makes it runnable again"
        }
        Code::SkillFailed => "`skillvisor show REF` tells why",
        Code::InvalidArgs => "`skillvisor show REF` prints the input schema",
        code if code.row().retry => {
            return Some(match retry_after {
                Some(seconds) => format!("try again in {seconds} s"),
                None => "try again later".to_owned(),
            });
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// Where to look for what is not there, by its kind.
fn not_found(detail: &str) -> &'static str {
    match detail.strip_prefix("no such ").unwrap_or_default() {
        "execution" => "`skillvisor logs` lists the executions that this key may see",
        "key" => "`skillvisor keys list` lists the keys, for an admin key",
        "secret" => "`skillvisor secrets list` lists those of this key's owner; an admin key adds --owner OWNER",
        "file" | "path" => {
            "`skillvisor files ls` lists the workspace of this key's owner; an admin key adds --owner OWNER"
        }
        "function" => "`skillvisor show REF` lists the functions of a skill",
        "version" => "`skillvisor versions NAME` lists the versions of a skill",
        "alias" => "`skillvisor show REF` lists the aliases of a skill",
        _ => {
            "`skillvisor list` shows the skills that this key may see; an admin key names another owner's skill by its \
             id, which `skillvisor list --json` has"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_an_exit_code_that_is_listed_and_agrees_with_its_status() {
        for code in Code::ALL {
            let row = code.row();
            assert_eq!(Exit::of(*code) as u8, row.exit, "{code}");
            if row.http != 200 {
                assert_eq!(Exit::of_status(row.http), Exit::of(*code), "{code}");
            }
        }
        for exit in Exit::ALL {
            assert!(EXIT_CODES_HELP.contains(&format!("\n  {:<4}", *exit as u8)), "{exit:?}");
        }
    }

    #[test]
    fn a_problem_is_told_with_its_places_and_a_hint() {
        let body = r#"{"status":422,"code":"invalid_args","detail":"args do not match","errors":[{"pointer":"/city","detail":"is missing"}]}"#;
        let failure = Failure::answered(422, None, body);
        assert_eq!(failure.exit, Exit::Invalid);
        insta::assert_snapshot!(failure.to_text(), @r"
        error: args do not match
          at /city: is missing
          code: invalid_args
        hint: `skillvisor show REF` prints the input schema
        ");
        assert_eq!(failure.to_problem()["status"], 422);
    }

    #[test]
    fn what_is_not_there_is_looked_for_where_its_like_are_listed() {
        for (kind, command) in
            [("skill", "list"), ("execution", "logs"), ("key", "keys list"), ("secret", "secrets list")]
        {
            let body = json!({ "code": "not_found", "detail": Error::not_found(kind).detail }).to_string();
            let hint = Failure::answered(404, None, &body).hint.unwrap();
            assert!(hint.starts_with(&format!("`skillvisor {command}`")), "{kind}: {hint}");
        }
    }

    #[test]
    fn people_are_told_what_is_not_there() {
        let body = json!({ "code": "not_found", "detail": "no such skill" }).to_string();
        let failure = Failure::answered(404, None, &body).about("weather@^9");
        assert!(failure.to_text().starts_with("error: no such skill: weather@^9\n"), "{}", failure.to_text());
        assert_eq!(failure.to_problem()["detail"], "no such skill");
        let other = Failure::answered(404, None, r#"{"code":"not_found","detail":"no such key"}"#).about("x");
        assert!(other.to_text().starts_with("error: no such key\n"));
    }

    #[test]
    fn an_answer_without_a_problem_still_has_an_exit_code() {
        let failure = Failure::answered(502, None, "<html>bad gateway</html>");
        assert_eq!(failure.exit, Exit::Unreachable);
        assert_eq!(failure.to_problem()["code"], "http");
        assert_eq!(Failure::answered(429, Some("7"), r#"{"code":"queue_full"}"#).hint.unwrap(), "try again in 7 s");
    }
}
