//! `/api/secrets`: storing secrets, and seeing that they are there. What they are is never answered.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use zeroize::Zeroizing;

use crate::model::{Clock, Code, Error, FieldError, OwnerId, Scope, SecretName, SecretValue};
use crate::secrets::{NewSecret, Stored};
use crate::store::SecretRecord;

use super::App;
use super::auth::Authed;
use super::owner::OwnerQuery;
use super::problem::Problem;
use super::read::{self, Segment};

type Asked = Result<Query<OwnerQuery>, QueryRejection>;

/// A secret that is to be stored.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SecretRequest)]
pub(super) struct PutBody {
    /// What it is: 8 to 2048 characters of visible ASCII.
    #[schema(value_type = String, required = true, nullable = false, write_only, min_length = 8, max_length = 2048)]
    value: Option<Text>,
    /// The only origin that gets it: `https://host[:port]`.
    r#for: String,
    /// The header that it goes into.
    header: String,
    /// What stands before it there, such as `Bearer ` with its space.
    #[serde(default)]
    prefix: String,
    /// Whether global skills may use it for every owner: only for secrets of `system`.
    #[serde(default)]
    shared: bool,
}

/// Another value for a secret.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SecretRotation)]
pub(super) struct RotateBody {
    /// What it is from now on: 8 to 2048 characters of visible ASCII.
    #[schema(value_type = String, required = true, nullable = false, write_only, min_length = 8, max_length = 2048)]
    value: Option<Text>,
    #[schema(ignore)]
    r#for: Option<Value>,
    #[schema(ignore)]
    header: Option<Value>,
    #[schema(ignore)]
    prefix: Option<Value>,
    #[schema(ignore)]
    shared: Option<Value>,
}

/// A text that no error repeats, and that leaves no copy behind.
struct Text(Zeroizing<String>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Serde's own words for a wrong type repeat what was there.
        match Value::deserialize(deserializer) {
            Ok(Value::String(text)) => Ok(Self(Zeroizing::new(text))),
            _ => Err(serde::de::Error::custom("`value` must be a text")),
        }
    }
}

impl Text {
    fn value(text: Option<Self>) -> Result<SecretValue, Error> {
        let wrong = |why: String| Error::at(Code::InvalidArgs, "/value", why);
        let Self(text) = text.ok_or_else(|| wrong("is missing: where a secret goes changes with its value".into()))?;
        SecretValue::new(text).map_err(wrong)
    }
}

/// A secret, without what it is.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Secret)]
pub(super) struct SecretBody<'a> {
    /// Its name.
    #[schema(value_type = String)]
    name: &'a SecretName,
    /// Whose it is.
    #[schema(value_type = String)]
    owner: &'a OwnerId,
    /// The only origin that gets it.
    r#for: &'a str,
    /// The header that it goes into, in small letters.
    header: &'a str,
    /// What stands before it there.
    prefix: &'a str,
    /// Whether global skills may use it for every owner.
    shared: bool,
    /// How often it was stored.
    version: u32,
    /// When it was first stored.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it was last stored.
    #[schema(format = DateTime)]
    updated_at: String,
}

impl<'a> From<&'a SecretRecord> for SecretBody<'a> {
    fn from(record: &'a SecretRecord) -> Self {
        Self {
            name: &record.name,
            owner: &record.owner,
            r#for: &record.origin,
            header: &record.header,
            prefix: &record.prefix,
            shared: record.shared,
            version: record.version,
            created_at: Clock::rfc3339(record.created_at),
            updated_at: Clock::rfc3339(record.updated_at),
        }
    }
}

/// All secrets of an owner, by name.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "described, never built")]
pub(super) struct SecretPage<'a> {
    /// The secrets, without what they are.
    secrets: Vec<SecretBody<'a>>,
    /// Where the next page begins; null on the last.
    #[schema(required = true)]
    next_cursor: Option<String>,
    /// How many there are on all pages.
    total: u64,
}

fn shown(record: &SecretRecord) -> Json<Value> {
    Json(serde_json::to_value(SecretBody::from(record)).unwrap_or_default())
}

/// Lists secrets
///
/// Needs the scope `secrets:write`. What they are is never answered.
#[utoipa::path(
    get, path = "/api/secrets", tag = "secrets", params(OwnerQuery),
    responses((status = 200, description = "The owner's secrets, by name", body = SecretPage)),
)]
pub(crate) async fn list(State(app): State<App>, Authed(caller): Authed, query: Asked) -> Result<Json<Value>, Problem> {
    caller.key.require(Scope::SecretsWrite)?;
    let records = app.host.secrets.list(&caller, query?.0.owner)?;
    let secrets: Vec<_> = records.iter().map(SecretBody::from).collect();
    Ok(Json(json!({ "total": secrets.len(), "secrets": secrets, "nextCursor": null })))
}

/// Shows a secret
///
/// Needs the scope `secrets:write`. What it is is never answered.
#[utoipa::path(
    get, path = "/api/secrets/{name}", tag = "secrets",
    params(("name" = String, Path, description = "Name of a secret"), OwnerQuery),
    responses((status = 200, description = "Where it goes", body = SecretBody)),
)]
pub(crate) async fn show(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(name): Segment,
    query: Asked,
) -> Result<Json<Value>, Problem> {
    caller.key.require(Scope::SecretsWrite)?;
    let record = app.host.secrets.get(&caller, query?.0.owner, &known(&name)?)?;
    Ok(shown(&record))
}

/// Stores a secret
///
/// In place of one that has this name. Where it goes is fixed with it. Needs the scope
/// `secrets:write`.
#[utoipa::path(
    put, path = "/api/secrets/{name}", tag = "secrets", request_body = PutBody,
    params(("name" = String, Path, description = "1 to 64 of A-Z a-z 0-9 _ -, the first a letter or _"), OwnerQuery),
    responses(
        (status = 200, description = "It stands in place of another", body = SecretBody),
        (status = 201, description = "It is new", body = SecretBody),
    ),
)]
pub(crate) async fn put(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(name): Segment,
    query: Asked,
    content: Body,
) -> Result<(StatusCode, Json<Value>), Problem> {
    // Before anything of the body is read.
    caller.key.require(Scope::SecretsWrite)?;
    let owner = query?.0.owner;
    let name: SecretName = name.parse().map_err(|error: Error| Error::at(Code::InvalidArgs, "/name", error.detail))?;
    let body: PutBody = read::json(content).await?;
    let new = NewSecret {
        value: Text::value(body.value)?,
        origin: body.r#for,
        header: body.header,
        prefix: body.prefix,
        shared: body.shared,
    };
    Ok(match app.host.secrets.put(&caller, (owner, name), new).await? {
        Stored::Created(record) => (StatusCode::CREATED, shown(&record)),
        Stored::Replaced(record) => (StatusCode::OK, shown(&record)),
    })
}

/// Gives a secret another value
///
/// Where it goes stays. Needs the scope `secrets:write`.
#[utoipa::path(
    patch, path = "/api/secrets/{name}", tag = "secrets", request_body = RotateBody,
    params(("name" = String, Path, description = "Name of a secret"), OwnerQuery),
    responses((status = 200, description = "Where it goes", body = SecretBody)),
)]
pub(crate) async fn rotate(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(name): Segment,
    query: Asked,
    content: Body,
) -> Result<Json<Value>, Problem> {
    caller.key.require(Scope::SecretsWrite)?;
    let (owner, name) = (query?.0.owner, known(&name)?);
    let body: RotateBody = read::json(content).await?;
    body.require_value_alone()?;
    let record = app.host.secrets.rotate(&caller, (owner, name), Text::value(body.value)?).await?;
    Ok(shown(&record))
}

/// Removes a secret
///
/// Runs that have it go on. Needs the scope `secrets:write`.
#[utoipa::path(
    delete, path = "/api/secrets/{name}", tag = "secrets",
    params(("name" = String, Path, description = "Name of a secret"), OwnerQuery),
    responses((status = 204, description = "It is gone")),
)]
pub(crate) async fn remove(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(name): Segment,
    query: Asked,
) -> Result<StatusCode, Problem> {
    caller.key.require(Scope::SecretsWrite)?;
    app.host.secrets.remove(&caller, query?.0.owner, known(&name)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl RotateBody {
    /// Who knows a value may say where it goes; who does not, may not lead it elsewhere.
    fn require_value_alone(&self) -> Result<(), Error> {
        let Self { r#for, header, prefix, shared, .. } = self;
        let given = [("/for", r#for), ("/header", header), ("/prefix", prefix), ("/shared", shared)];
        let detail = "stays as it was stored; to change it, store the secret anew with PUT";
        let fields: Vec<_> = given
            .into_iter()
            .filter(|(_, value)| value.is_some())
            .map(|(place, _)| FieldError::new(place, detail))
            .collect();
        if fields.is_empty() { Ok(()) } else { Err(Error::fields(Code::InvalidArgs, detail, fields)) }
    }
}

/// The name of a secret that may be there.
fn known(name: &str) -> Result<SecretName, Error> {
    name.parse().map_err(|_| Error::not_found("secret"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_value_is_told_without_it() {
        for text in ["1234567890", "[\"canary-1\"]", "{\"canary-1\":1}", "true", "\"canary 1\"", "\"kan-1\"", "null"] {
            let body = format!(r#"{{"for":"https://a.example","header":"x","value":{text}}}"#);
            let error = read::parse::<PutBody>(body.as_bytes()).and_then(|body| Text::value(body.value)).unwrap_err();
            let shown = format!("{error:?}");
            assert!(!["canary", "1234567890", "kan-1"].iter().any(|part| shown.contains(part)), "{shown}");
        }
    }

    #[test]
    fn a_rotation_changes_the_value_alone() {
        let body = br#"{"value":"canary-1","for":"https://b.example","shared":true}"#;
        let error = read::parse::<RotateBody>(body).unwrap().require_value_alone().unwrap_err();
        let places: Vec<_> = error.fields.iter().map(|field| field.pointer.as_str()).collect();
        assert_eq!((error.code, places), (Code::InvalidArgs, vec!["/for", "/shared"]));
    }
}
