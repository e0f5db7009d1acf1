//! What may be set up, and how it is asked then.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::egress::Target;
use crate::model::{Code, Digest, Error, InterceptorKind, InterceptorName, InterceptorRecord, Phase, SkillName};
use crate::store::WebhookSecret;

use super::builtin;
use super::chain::{Entry, Way};
use super::webhook::Webhook;

/// How long one may take for an answer, in milliseconds, if nothing is said, and at most.
const TIMEOUT_MS: u64 = 1_000;
const TOLD_TIMEOUT_MS: u64 = 15_000;
const MAX_TIMEOUT_MS: u64 = 30_000;
/// Most skills that one is for, by name.
const MAX_SKILLS: usize = 100;
/// Longest URL, in bytes.
const MAX_URL: usize = 2_048;

/// An interceptor that is to be set up.
#[derive(Clone, Debug)]
pub struct NewInterceptor {
    /// What people call it.
    pub name: InterceptorName,
    /// `wasm`, `webhook` or `builtin`.
    pub kind: String,
    /// Where it stands.
    pub phases: Option<Vec<Phase>>,
    /// Whether runs wait for it.
    pub blocking: Option<bool>,
    /// Its place.
    pub order: i32,
    /// How long it may take, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Whether a run goes on without it.
    pub optional: bool,
    /// Whether it is for every owner.
    pub global: bool,
    /// Whether it is asked.
    pub enabled: bool,
    /// The only skills that it is for.
    pub skills: Option<Vec<SkillName>>,
    /// The URL of a webhook.
    pub url: Option<String>,
    /// The digest of a component.
    pub component: Option<Digest>,
    /// The name of a builtin.
    pub builtin: Option<String>,
    /// What a builtin is set to.
    pub config: Option<Map<String, Value>>,
}

/// A change of one; what is not said stays.
#[derive(Clone, Debug, Default)]
pub struct InterceptorPatch {
    /// Where it stands.
    pub phases: Option<Vec<Phase>>,
    /// Its place.
    pub order: Option<i32>,
    /// How long it may take, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Whether a run goes on without it.
    pub optional: Option<bool>,
    /// Whether it is asked.
    pub enabled: Option<bool>,
    /// The only skills that it is for; `Some(None)` is all.
    pub skills: Option<Option<Vec<SkillName>>>,
    /// The URL of a webhook.
    pub url: Option<String>,
    /// The digest of a component.
    pub component: Option<Digest>,
    /// What a builtin is set to.
    pub config: Option<Map<String, Value>>,
}

fn wrong(field: &str, why: impl Into<String>) -> Error {
    Error::at(Code::InvalidArgs, format!("/{field}"), why)
}

impl NewInterceptor {
    /// What it is, with what goes along with that and nothing else.
    ///
    /// # Errors
    ///
    /// `invalid_args`, naming the field.
    pub(super) fn what(&self) -> Result<InterceptorKind, Error> {
        let given = [
            ("url", self.url.is_some(), "webhook"),
            ("component", self.component.is_some(), "wasm"),
            ("builtin", self.builtin.is_some(), "builtin"),
            ("config", self.config.is_some(), "builtin"),
        ];
        if let Some((field, _, kind)) = given.iter().find(|(_, is_given, kind)| *is_given && *kind != self.kind) {
            return Err(wrong(field, format!("goes with the kind `{kind}` only")));
        }
        match self.kind.as_str() {
            "webhook" => {
                let url = self.url.clone().ok_or_else(|| wrong("url", "is missing"))?;
                Ok(InterceptorKind::Webhook { url })
            }
            "wasm" => {
                let component = self.component.ok_or_else(|| wrong("component", "is missing"))?;
                Ok(InterceptorKind::Wasm { component })
            }
            "builtin" => {
                let builtin = self.builtin.clone().ok_or_else(|| wrong("builtin", "is missing"))?;
                Ok(InterceptorKind::Builtin { builtin, config: self.config.clone().unwrap_or_default() })
            }
            _ => Err(wrong("kind", "must be wasm, webhook or builtin")),
        }
    }

    /// The phases, if nothing is said.
    pub(super) fn phases(&self, what: &InterceptorKind, blocking: bool) -> Vec<Phase> {
        let all = match what {
            // It says `after` with what it needs to be, and takes nothing from a skill that it did not mean to.
            InterceptorKind::Builtin { builtin, .. } if builtin == "redaction" => vec![Phase::After],
            InterceptorKind::Builtin { builtin, .. } if builtin == "argument-policy" => vec![Phase::Before],
            _ if !blocking => vec![Phase::After],
            _ => Phase::ALL.to_vec(),
        };
        self.phases.clone().unwrap_or(all)
    }
}

/// How long one may take if nothing is said.
pub(super) fn default_timeout(blocking: bool) -> u64 {
    if blocking { TIMEOUT_MS } else { TOLD_TIMEOUT_MS }
}

/// Refuses what does not go together, whoever asks.
///
/// # Errors
///
/// `invalid_args`, naming the field.
pub(super) fn check(record: &InterceptorRecord) -> Result<(), Error> {
    let is_webhook = matches!(record.what, InterceptorKind::Webhook { .. });
    if !record.blocking && !is_webhook {
        return Err(wrong("blocking", "only a webhook can be told of runs without being waited for"));
    }
    if !record.blocking && record.phases != [Phase::After] {
        return Err(wrong("phases", "a webhook that runs do not wait for is told of their ends: leave phases out"));
    }
    if record.phases.is_empty() || (record.phases.len() > 1 && record.phases[0] == record.phases[1]) {
        return Err(wrong("phases", "must name before, after or both, each once"));
    }
    if record.phases.len() > Phase::ALL.len() {
        return Err(wrong("phases", "must name before, after or both, each once"));
    }
    if !(1..=MAX_TIMEOUT_MS).contains(&record.timeout_ms) {
        return Err(wrong("timeoutMs", format!("must be 1 to {MAX_TIMEOUT_MS}")));
    }
    if record.skills.as_ref().is_some_and(|skills| skills.is_empty() || skills.len() > MAX_SKILLS) {
        return Err(wrong("skills", format!("must have 1 to {MAX_SKILLS} names; leave it out for all")));
    }
    Ok(())
}

/// Reads a URL as one is asked for.
///
/// # Errors
///
/// `invalid_args` at `/url`.
pub(super) fn target(url: &str) -> Result<Target, Error> {
    if url.len() > MAX_URL {
        return Err(wrong("url", format!("has more than {MAX_URL} bytes")));
    }
    Target::parse(url).map_err(|why| wrong("url", format!("a request there {why}")))
}

/// An interceptor in its place.
///
/// # Errors
///
/// `invalid_args` for what cannot be asked.
pub(super) fn entry(record: &InterceptorRecord, secrets: &[WebhookSecret]) -> Result<Entry, Error> {
    let timeout = Duration::from_millis(record.timeout_ms);
    let mut phases = record.phases.clone();
    let way = match &record.what {
        InterceptorKind::Wasm { component } => Way::Wasm(*component),
        InterceptorKind::Builtin { builtin, config } => {
            let native = builtin::make(builtin, config.clone())?;
            phases.retain(|phase| native.phases().contains(phase));
            if phases.is_empty() {
                return Err(wrong("phases", format!("`{builtin}` does nothing there")));
            }
            Way::Inline(native)
        }
        InterceptorKind::Webhook { url } => {
            let hook = Arc::new(Webhook {
                id: record.id,
                owner: record.owner.clone(),
                target: target(url)?,
                registered_by: record.registered_by.clone(),
                timeout,
                skills: record.skills.clone(),
                secrets: secrets.to_vec(),
            });
            if record.blocking { Way::Webhook(hook) } else { Way::Told(hook) }
        }
    };
    Ok(Entry {
        name: record.name.clone(),
        owner: record.owner.clone(),
        global: record.global,
        order: record.order,
        timeout,
        optional: record.optional,
        skills: record.skills.clone(),
        phases,
        way,
    })
}
