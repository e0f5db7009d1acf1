//! A skill's manifest, from what was sent to what is meant.

use semver::Version;
use serde::Deserialize;
use serde_json::Value;

use crate::model::{
    Access, Code, ContainerProgram, Digest, Error, Grants, Limits, LimitsPatch, Mode, OwnerId, Retry, RetryPatch,
    SandboxFields, Schemas, SkillName, Tag,
};

use super::installing::Origin;
use super::reserved::require_free;
use super::secrets::require_few;
use super::{schema, values};

/// Longest description, in characters (Agent Skills specification).
const MAX_DESCRIPTION: usize = 1024;

/// Longest version and longest source, in bytes.
const MAX_WORD: usize = 128;
/// Most labels of one skill.
pub(crate) const MAX_TAGS: usize = 64;

/// A manifest as it is written (SPEC §3), with the other names that are understood.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Manifest {
    /// Name; may come from the query or the component instead.
    pub name: Option<String>,
    /// Version; likewise.
    pub version: Option<String>,
    /// What the skill does.
    pub description: Option<String>,
    /// One schema, or `{input, output}`.
    pub schema: Option<Value>,
    /// How it runs: `wasm`, `sha256:…`, or `docker://…`, also as the object that says the same.
    #[serde(alias = "handlerCode", deserialize_with = "handler_text")]
    pub handler: Option<String>,
    /// Whether it may run.
    pub enabled: Option<bool>,
    /// Whether and how it is offered.
    pub mode: Option<Mode>,
    /// Labels.
    pub tags: Vec<Tag>,
    /// Where it came from.
    pub source_provider: Option<String>,
    /// What it asks to touch.
    #[serde(deserialize_with = "crate::model::object")]
    pub grants: Grants,
    /// What it may use up.
    #[serde(deserialize_with = "crate::model::object")]
    pub limits: LimitsPatch,
    /// When it is tried again.
    #[serde(deserialize_with = "crate::model::object")]
    pub retry: RetryPatch,
    /// Whether running it twice is as good as once.
    pub idempotent: bool,
    /// Whether instances may be used again.
    pub reuse: bool,
    /// Whether it is told to those without a key; for global skills only.
    pub public: bool,
    /// For whom it is registered; admin keys only.
    #[serde(alias = "apiKeyId")]
    pub owner: Option<OwnerId>,
    /// See [`SandboxFields`], as the four below.
    pub cpu_limit: Option<u64>,
    /// As it is there.
    pub memory_limit: Option<u64>,
    /// As it is there.
    pub timeout: Option<u64>,
    /// As it is there.
    pub network_enabled: Option<bool>,
    /// As it is there.
    pub read_only: Option<bool>,
    /// Where it was installed from; nothing that anybody writes.
    #[serde(skip)]
    pub origin: Option<Origin>,
    /// The `SKILL.md` that it stands in.
    #[serde(skip)]
    pub skill_md: Option<String>,
}

/// What a manifest means without its component.
#[derive(Clone, Debug)]
pub(super) struct CheckedAlone {
    /// The name, unless the component is to give it.
    pub(super) name: Option<SkillName>,
    schema: Schemas,
    asked: LimitsPatch,
}

impl CheckedAlone {
    /// The limits that it asks for.
    pub(super) fn limits(&self) -> &LimitsPatch {
        &self.asked
    }
}

/// A manifest whose every field has been checked.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    pub(super) name: SkillName,
    pub(super) version: Version,
    pub(super) description: String,
    pub(super) schema: Schemas,
    pub(super) limits: Limits,
    pub(super) retry: Retry,
    /// What was asked beyond the limits, in sentences.
    pub(super) cut: Vec<String>,
    pub(super) digest: Digest,
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    ///
    /// `malformed` if it is not JSON of the right shape, naming the field.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let strict = crate::model::StrictJson::parse(text)?;
        if !strict.text().trim_start().starts_with('{') {
            return Err(Error::new(Code::Malformed, "the manifest must be a JSON object"));
        }
        serde_json::from_str(text)
            .map_err(|error| Error::new(Code::Malformed, format!("the manifest cannot be read: {error}")))
    }

    /// The digest that the handler names, or nothing where the component comes along.
    ///
    /// # Errors
    ///
    /// `not_supported` for a kind of handler that this version does not run.
    pub fn component(&self) -> Result<Option<Digest>, Error> {
        match self.handler.as_deref() {
            None | Some("wasm") => Ok(None),
            Some(handler) if handler.starts_with("sha256:") => handler
                .parse()
                .map(Some)
                .map_err(|error: Error| Error::at(Code::InvalidManifest, "/handler", error.detail)),
            Some(_) => {
                let detail = if self.container()?.is_some() {
                    "a container skill has no component; register it by its manifest alone (POST /api/skills/skillssh)"
                } else {
                    "this version runs the handlers `wasm`, `sha256:…` and `docker://…` only"
                };
                Err(Error::at(Code::NotSupported, "/handler", detail))
            }
        }
    }

    /// The command in an image that the handler names, if it is one.
    ///
    /// # Errors
    ///
    /// `invalid_manifest` if it is written as one and is none.
    pub fn container(&self) -> Result<Option<ContainerProgram>, Error> {
        self.handler.as_deref().map_or(Ok(None), ContainerProgram::of_handler)
    }

    /// Checks what needs no look into the component, before one costs anything.
    pub(super) fn check_alone(&self) -> Result<CheckedAlone, Error> {
        let name = self.name.as_ref().map(|_| self.name()).transpose()?;
        self.version.as_ref().map(|_| self.version()).transpose()?;
        self.require_short()?;
        self.require_one_word_on_network()?;
        self.require_one_word_on_workspace()?;
        require_few(&self.grants.secrets)?;
        values::require_sane(&self.grants)?;
        self.retry.check("/retry", Code::InvalidManifest)?;
        let asked = self.sandbox().limits(self.limits, Code::InvalidManifest)?;
        if let Some(limit) = asked.zero() {
            return Err(Error::at(Code::InvalidManifest, format!("/limits/{limit}"), "must be larger than 0"));
        }
        let schema = match &self.schema {
            Some(schema) => schema::checked(schema.clone()).map_err(|error| error.below("/schema"))?,
            None => Schemas::default(),
        };
        Ok(CheckedAlone { name, schema, asked })
    }

    /// Checks the rest, once it says what the component says. `ceiling` is the most the
    /// registering key may grant.
    pub(super) fn check(&self, alone: CheckedAlone, ceiling: Limits) -> Result<Checked, Error> {
        let CheckedAlone { schema, asked, .. } = alone;
        let (name, version) = (self.name()?, self.version()?);
        self.require_short()?;
        let description = self.description.clone().unwrap_or_default();
        let digest = self.digest((&name, &version), &description, &schema, asked);
        let limits = asked.over(Limits::DEFAULT).intersect(ceiling);
        let cut = asked.cut_to(&limits, "the registering key may give");
        let retry = self.retry.over(&Retry::default());
        Ok(Checked { name, version, description, schema, limits, retry, cut, digest })
    }

    fn name(&self) -> Result<SkillName, Error> {
        let name: SkillName = required(self.name.as_deref(), "/name")?;
        require_free(&name)?;
        Ok(name)
    }

    fn version(&self) -> Result<Version, Error> {
        let version = self.version.as_deref().ok_or_else(|| missing("/version"))?;
        if version.len() > MAX_WORD {
            return Err(too_long("/version", MAX_WORD, "bytes"));
        }
        Version::parse(version)
            .map_err(|error| Error::at(Code::InvalidManifest, "/version", format!("not a SemVer 2.0 version: {error}")))
    }

    /// Refuses what is longer than anybody reads; each listing repeats it.
    fn require_short(&self) -> Result<(), Error> {
        if self.source_provider.as_ref().is_some_and(|source| source.len() > MAX_WORD) {
            return Err(too_long("/sourceProvider", MAX_WORD, "bytes"));
        }
        if self.description.as_ref().is_some_and(|text| text.chars().count() > MAX_DESCRIPTION) {
            return Err(too_long("/description", MAX_DESCRIPTION, "characters"));
        }
        if self.tags.len() > MAX_TAGS {
            return Err(too_long("/tags", MAX_TAGS, "labels"));
        }
        Ok(())
    }

    /// SHA-256 of what may never change in a version.
    fn digest(
        &self,
        (name, version): (&SkillName, &Version),
        description: &str,
        schema: &Schemas,
        limits: LimitsPatch,
    ) -> Digest {
        let mut fixed = serde_json::json!({
            "name": name, "version": version, "description": description, "schema": schema,
            "limits": limits, "sourceProvider": self.source_provider,
        });
        let network = self.network();
        // Those without keep the digest that they always had.
        if !network.is_empty() {
            fixed["network"] = serde_json::json!(network);
        }
        let workspace = self.workspace();
        if workspace != Access::None {
            fixed["workspace"] = serde_json::json!(workspace);
        }
        if !self.grants.secrets.is_empty() {
            fixed["secrets"] = serde_json::json!(self.grants.secrets);
        }
        if self.public {
            fixed["public"] = serde_json::json!(true);
        }
        if self.idempotent {
            fixed["idempotent"] = serde_json::json!(true);
        }
        if self.reuse {
            fixed["reuse"] = serde_json::json!(true);
        }
        values::into_digest(&self.grants, &mut fixed);
        let retry = self.retry.over(&Retry::default());
        if retry != Retry::default() {
            fixed["retry"] = serde_json::json!(retry);
        }
        if let Some(text) = &self.skill_md {
            fixed["skillMd"] = serde_json::json!(text);
        }
        Digest::of(fixed.to_string().as_bytes())
    }

    /// OmniRoute's names for limits and grants.
    fn sandbox(&self) -> SandboxFields {
        SandboxFields {
            cpu_limit: self.cpu_limit,
            memory_limit: self.memory_limit,
            timeout: self.timeout,
            network_enabled: self.network_enabled,
            read_only: self.read_only,
        }
    }
}

/// What is wrong with a field that has more than `most` of what it is made of.
pub(super) fn too_long(pointer: &str, most: usize, of: &str) -> Error {
    Error::at(Code::InvalidManifest, pointer, format!("has more than {most} {of}"))
}

/// A handler, which may be an object: as its text.
fn handler_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Option::<Value>::deserialize(deserializer)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(object @ Value::Object(_)) => Ok(Some(object.to_string())),
        Some(_) => Err(serde::de::Error::custom("`handler` is a text, or an object with `image` and `command`")),
    }
}

fn missing(pointer: &str) -> Error {
    let field = pointer.trim_start_matches('/');
    Error::at(Code::InvalidManifest, pointer, format!("`{field}` is missing; give it in the manifest or the query"))
}

fn required<T: std::str::FromStr<Err = Error>>(text: Option<&str>, pointer: &str) -> Result<T, Error> {
    let text = text.ok_or_else(|| missing(pointer))?;
    text.parse().map_err(|error: Error| Error::at(Code::InvalidManifest, pointer, error.detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<Checked, Error> {
        let manifest = Manifest::parse(text)?;
        manifest.check(manifest.check_alone()?, Limits::DEFAULT)
    }

    #[test]
    fn unknown_fields_are_errors_that_name_the_field() {
        let error = check(r#"{"name":"a","version":"1.0.0","nmae":1}"#).unwrap_err();
        assert!(error.code == Code::Malformed && error.detail.contains("nmae"), "{error:?}");
    }

    #[test]
    fn what_a_version_does_after_a_crash_never_changes() {
        let with = |idempotent| {
            check(&format!(r#"{{"name":"a","version":"1.0.0","idempotent":{idempotent}}}"#)).unwrap().digest
        };
        assert_ne!(with(true), with(false));
        assert_eq!(with(false), check(r#"{"name":"a","version":"1.0.0"}"#).unwrap().digest);
    }

    #[test]
    fn the_names_of_omniroute_mean_the_same() {
        let ours = r#"{"name":"a","version":"1.0.0","limits":{"timeoutMs":5,"memoryMb":64}}"#;
        let theirs = r#"{"name":"a","version":"1.0.0","handlerCode":"wasm","timeout":5,"memoryLimit":64,
                         "networkEnabled":false,"readOnly":true}"#;
        let (ours, theirs) = (check(ours).unwrap(), check(theirs).unwrap());
        assert_eq!((ours.limits, ours.digest), (theirs.limits, theirs.digest));
        assert_eq!(check(r#"{"name":"a","version":"1.0.0","cpuLimit":50}"#).unwrap().limits.cpu_percent, 50);
    }

    #[test]
    fn how_to_try_again_is_bounded() {
        let with = |retry: &str| check(&format!(r#"{{"name":"a","version":"1.0.0","retry":{retry}}}"#));
        for (retry, place) in
            [(r#"{"maxRetries":11}"#, "/retry/maxRetries"), (r#"{"backoffMs":60001}"#, "/retry/backoffMs")]
        {
            let error = with(retry).unwrap_err();
            assert_eq!((error.code, error.fields[0].pointer.as_str()), (Code::InvalidManifest, place));
        }
        let said = with(r#"{"maxRetries":0,"on":["unavailable","timeout","trap"],"backoffMs":200}"#).unwrap();
        let more = with(r#"{"maxRetries":1}"#).unwrap();
        assert_ne!(said.digest, more.digest);
        assert_eq!((more.retry.max_retries, more.retry.backoff_ms), (1, 200));
    }

    #[test]
    fn what_cannot_be_is_refused_at_its_place() {
        for (text, place) in [
            (r#"{"version":"1.0.0"}"#, "/name"),
            (r#"{"name":"../x","version":"1.0.0"}"#, "/name"),
            (r#"{"name":"executions","version":"1.0.0"}"#, "/name"),
            (r#"{"name":"a"}"#, "/version"),
            (r#"{"name":"a","version":"1.0"}"#, "/version"),
            (r#"{"name":"a","version":"1.0.0","limits":{"memoryMb":0}}"#, "/limits/memoryMb"),
            (r#"{"name":"a","version":"1.0.0","memoryLimit":0}"#, "/memoryLimit"),
            (r#"{"name":"a","version":"1.0.0","timeout":1,"limits":{"timeoutMs":2}}"#, "/timeout"),
            (r#"{"name":"a","version":"1.0.0","schema":{"type":"strin"}}"#, "/schema/type"),
            (r#"{"name":"a","version":"1.0.0","schema":{"output":{"type":1}}}"#, "/schema/output/type"),
        ] {
            let error = check(text).unwrap_err();
            assert_eq!(error.fields.first().map(|field| field.pointer.as_str()), Some(place), "{text}: {error:?}");
        }
    }

    #[test]
    fn limits_are_cut_to_the_ceiling_of_the_key() {
        let checked = check(r#"{"name":"a","version":"1.0.0","limits":{"memoryMb":9999,"timeoutMs":5}}"#).unwrap();
        assert_eq!((checked.limits.memory_mb, checked.limits.timeout_ms), (256, 5));
    }
}
