//! An uploaded component on its way to the disk.

use bytes::Bytes;
use futures_util::{Stream, StreamExt};

use crate::model::Error;
use crate::registry::StagedComponent;

use super::{App, read};

/// Writes `body` to a temporary file and syncs it; see [`StagedComponent::receive`].
///
/// # Errors
///
/// Those, and `malformed` if the body breaks off, `request_timeout` if it comes too slowly.
pub(super) async fn stage<E: std::error::Error + 'static>(
    app: &App,
    body: impl Stream<Item = Result<Bytes, E>>,
) -> Result<StagedComponent, Error> {
    let body = body.map(|chunk| chunk.map_err(|error| read::broken_off(&error)));
    StagedComponent::receive(&app.host.temporary, app.max_upload_bytes, body).await
}
