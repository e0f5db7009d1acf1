//! `/api/skills/install`: skills that the host fetches.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use utoipa::ToSchema;
use zeroize::Zeroizing;

use crate::host::{Install, Named};
use crate::model::{Code, Digest, Error, GitPart, OwnerId, Scope, Source, object};
use crate::registry::Manifest;
use crate::sources::Login;

use super::App;
use super::auth::Authed;
use super::problem::Problem;
use super::read;
use super::skills::{prefers_async, registered_response};
use super::{bodies, shapes, wire};

/// What to install, and as what.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Install)]
pub(super) struct InstallBody {
    /// `https://…`, a component or a zipped skill folder; `[oci://]registry/repository[:tag|@sha256:…]`;
    /// or `owner/repo` at the git host that the server is set to.
    source: String,
    /// The skill's folder in the repository, or in the zip; the only one if nothing is said.
    #[serde(alias = "skillId")]
    skill: Option<String>,
    /// Branch, tag or commit of the repository.
    #[serde(rename = "ref")]
    reference: Option<String>,
    /// The skill's name, instead of what manifest, component or source say.
    name: Option<String>,
    /// Its version (SemVer 2.0), likewise.
    version: Option<String>,
    /// What it does, likewise.
    description: Option<String>,
    /// The digest that the component must have.
    #[schema(schema_with = shapes::digest, required = false)]
    digest: Option<Digest>,
    /// The digest that the `SKILL.md` of the skill folder must have.
    #[serde(rename = "skillMdDigest")]
    #[schema(schema_with = shapes::digest, required = false)]
    skill_md_digest: Option<Digest>,
    /// For whom it is registered; admin keys only.
    #[serde(alias = "apiKeyId")]
    #[schema(value_type = Option<String>)]
    owner: Option<OwnerId>,
    /// Who the source is told that you are; used for this once and kept nowhere.
    username: Option<String>,
    /// The password or token that goes with it.
    #[schema(format = Password)]
    password: Option<String>,
    /// Its manifest; a skill folder has its own.
    #[schema(value_type = Option<bodies::Manifest>)]
    manifest: Option<Object>,
}

impl InstallBody {
    fn install(self) -> Result<Install, Error> {
        let password = self.password.map(Zeroizing::new);
        let login = match (self.username, password) {
            (None, None) => None,
            (Some(username), Some(password)) => Some(Login::new(&username, &password)?),
            _ => return Err(Error::at(Code::Malformed, "/username", "username and password go together")),
        };
        let manifest = self.manifest.map(|manifest| manifest.0);
        let named = manifest.as_ref().map(Manifest::component).transpose()?.flatten();
        if named.is_some() {
            let detail = "the component comes from the source; leave the handler out, and pin it with `digest`";
            return Err(Error::at(Code::InvalidManifest, "/manifest/handler", detail));
        }
        let source: Source = self.source.parse()?;
        if self.reference.is_some() && !matches!(source, Source::Git(_)) {
            return Err(Error::at(Code::Malformed, "/ref", "goes with owner/repo only"));
        }
        let part = GitPart::new(self.skill, self.reference)?;
        let named = Named { name: self.name, version: self.version, description: self.description, owner: self.owner };
        let (digest, skill_md_digest) = (self.digest, self.skill_md_digest);
        Ok(Install { source, part, login, digest, skill_md_digest, manifest, named })
    }
}

/// A manifest that is an object: serde would take an array for its fields in their order.
#[derive(Deserialize)]
struct Object(#[serde(deserialize_with = "object")] Manifest);

/// What OmniRoute sends: a manifest, whose version may be missing.
fn of_omniroute(text: &str) -> Result<Manifest, Error> {
    let mut manifest = Manifest::parse(text)?;
    manifest.version.get_or_insert_with(|| "1.0.0".to_owned());
    Ok(manifest)
}

/// Installs a skill from elsewhere
///
/// The host fetches the component, if the network ceiling of the key allows that or the operator
/// lists the source (setting `install.allowed_sources`). Needs the scope `skills:write`. Waits as
/// an upload does once the component is there. A body without `source` is a manifest, as OmniRoute
/// sends it.
#[utoipa::path(
    post, path = "/api/skills/install", tag = "skills",
    params(("prefer" = Option<String>, Header, description = "`respond-async` does not wait")),
    request_body(content((InstallBody = "application/json"))),
    responses(
        (status = 201, description = "A new skill", body = wire::SkillBody,
            headers(("location" = String, description = "Where the skill is"))),
        (status = 202, description = "A new skill that is being compiled", body = wire::SkillBody,
            headers(("location" = String, description = "Where the skill is"))),
        (status = 200, description = "It was there already, the same", body = wire::SkillBody,
            headers(("location" = String, description = "Where the skill is"))),
    ),
)]
pub(crate) async fn install(
    State(app): State<App>,
    Authed(caller): Authed,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, Problem> {
    caller.key.require(Scope::SkillsWrite)?;
    let bytes = read::bytes(content, read::SMALL_BODY).await?;
    let now = prefers_async(&headers);
    let registered = if has_source(&bytes)? {
        let install = read::parse::<InstallBody>(&bytes)?.install()?;
        let mut room = app.uploads.room(caller.owner());
        app.host.install_counted(&caller, install, now, |bytes| room.grow(bytes)).await?
    } else {
        let manifest = of_omniroute(read::text(&bytes)?)?;
        app.host.registry.register_manifest(&caller, manifest, now).await?
    };
    Ok(registered_response(&app, &registered))
}

/// Whether the body says where to install from.
fn has_source(bytes: &[u8]) -> Result<bool, Error> {
    #[derive(Deserialize)]
    struct Only {
        source: Option<serde::de::IgnoredAny>,
    }
    read::parse::<Only>(bytes).map(|only| only.source.is_some())
}
