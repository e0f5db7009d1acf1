//! A skill folder that comes as a zip.

use axum::body::Body;

use crate::model::Error;
use crate::registry::{Manifest, StagedComponent, unzip};

use super::App;
use super::held::Room;
use super::staging::stage;

/// How many archives are expanded at one time: it is work, and others wait for it in line.
pub(super) const AT_ONCE: usize = 2;
/// How many bytes deflate makes of one at most.
const DEFLATE: u64 = 1032;

/// Writes the archive to the disk, and its component beside it.
///
/// # Errors
///
/// As [`unzip`] and [`stage`]; the archive has the limit of a component, and so has the component. The
/// room must do for what the archive may become, too.
pub(super) async fn folder(app: &App, room: &mut Room, body: Body) -> Result<(Manifest, StagedComponent), Error> {
    let archive = stage(app, room, body.into_data_stream()).await?;
    // Small archives may be much work: what one may become counts, so that no owner fills the line.
    let most = archive.bytes.saturating_mul(DEFLATE).min(app.max_upload_bytes.saturating_mul(2));
    room.grow(usize::try_from(most).unwrap_or(usize::MAX))?;
    let _place = app.expanding.acquire().await.map_err(Error::internal)?;
    let (manifest, component) = unzip(archive.file.clone(), app.max_upload_bytes);
    let component = stage(app, room, component).await;
    // What is wrong with the archive is also why its component ended.
    let manifest = manifest.await.map_err(Error::internal)??;
    Ok((manifest, component?))
}
