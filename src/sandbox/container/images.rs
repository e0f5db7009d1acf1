//! Images: found on this machine, fetched when somebody registers a skill or says so, and never by a run.

use std::time::Duration;

use serde::Serialize;

use crate::model::{Code, ContainerPolicy, Error, ImageRef, plain};

use super::client::{Client, Kind, NoAnswer, PATIENCE};

/// How long fetching an image may take.
const PULLING: Duration = Duration::from_secs(600);

/// An image that this machine has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Image {
    /// Its name, or where it has none anymore, its id.
    pub name: String,
    /// SHA-256 of its configuration, in hexadecimal digits.
    pub id: String,
}

/// The image that a name or an id means on this machine, if there is one.
///
/// # Errors
///
/// `unavailable` if the engine does not say; `invalid_component` for an image that cannot be held
/// to its limits there.
pub(super) async fn find(client: &Client, name: &str) -> Result<Option<String>, Error> {
    let question = ["image", "inspect", "--format={{.Id}} {{json .Config.Volumes}}", name];
    let answer = match client.ask(&question, PATIENCE).await {
        Ok(answer) => answer,
        Err(NoAnswer::Refused(why)) if is_absence(&why) => return Ok(None),
        Err(why) => return Err(failed(client.kind, &why)),
    };
    let (id, volumes) = answer.split_once(' ').unwrap_or((&answer, "null"));
    let id = id.strip_prefix("sha256:").unwrap_or(id);
    if id.len() != 64 || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(failed(client.kind, &NoAnswer::Refused(format!("an image has the id {id:?}"))));
    }
    // Docker would make each a place to write to, outside of every limit.
    if client.kind == Kind::Docker && !matches!(volumes, "null" | "{}") {
        let detail = "the image declares volumes, which Docker cannot take away from it; make one without VOLUME";
        return Err(Error::at(Code::InvalidComponent, "/handler", detail));
    }
    Ok(Some(id.to_owned()))
}

fn is_absence(why: &str) -> bool {
    let why = why.to_ascii_lowercase();
    ["no such image", "image not known", "no such object"].iter().any(|words| why.contains(words))
}

fn failed(kind: Kind, why: &NoAnswer) -> Error {
    if let NoAnswer::Refused(text) = why {
        tracing::warn!(engine = kind.program(), "A container engine refused: {text}");
    }
    why.error(kind)
}

/// Fetches an image from its registry, and gives its id.
///
/// # Errors
///
/// `image_not_allowed`; `invalid_manifest` if there is none of this name, or it may not be had;
/// `unavailable` if the registry or the engine does not play along.
pub(super) async fn pull(client: &Client, policy: &ContainerPolicy, image: &ImageRef) -> Result<String, Error> {
    policy.require_allowed(image)?;
    let name = image.whole();
    match client.ask(&["pull", "--quiet", &name], PULLING).await {
        Ok(_) => {}
        Err(NoAnswer::Refused(why)) => return Err(not_pulled(image, &why)),
        Err(why) => return Err(failed(client.kind, &why)),
    }
    let id = find(client, &name).await?;
    id.ok_or_else(|| failed(client.kind, &NoAnswer::Refused(format!("{name} is not there after it was pulled"))))
}

fn not_pulled(image: &ImageRef, why: &str) -> Error {
    tracing::warn!(image = image.as_str(), "An image could not be pulled: {}", plain(why, 1000));
    let lower = why.to_ascii_lowercase();
    let unknown = ["manifest unknown", "not found", "denied", "unauthorized", "name unknown", "name invalid"];
    if unknown.iter().any(|words| lower.contains(words)) {
        let detail = format!("there is no image {image} that this host may fetch");
        return Error::at(Code::InvalidManifest, "/handler", detail);
    }
    let detail = format!("the image {image} could not be fetched; the log of this host says why");
    Error::new(Code::Unavailable, detail).retry_after(30)
}

/// All images that have a name.
///
/// # Errors
///
/// `unavailable`.
pub(super) async fn list(client: &Client) -> Result<Vec<Image>, Error> {
    let question = ["images", "--no-trunc", "--format={{.Repository}}:{{.Tag}} {{.ID}}"];
    let answer = client.ask(&question, PATIENCE).await.map_err(|why| failed(client.kind, &why))?;
    let image = |line: &str| {
        let (name, id) = line.split_once(' ')?;
        let id = id.strip_prefix("sha256:").unwrap_or(id).to_owned();
        let name = if name.contains("<none>") { id.clone() } else { name.to_owned() };
        Some(Image { name, id })
    };
    let mut images: Vec<_> = answer.lines().filter_map(image).collect();
    images.sort_by(|a, b| a.name.cmp(&b.name));
    images.dedup();
    Ok(images)
}
