//! An uploaded component on its way to the disk.

use bytes::Bytes;
use futures_util::Stream;

use crate::model::Error;
use crate::registry::StagedComponent;

use super::App;

/// Writes `body` to a temporary file and syncs it; see [`StagedComponent::receive`].
pub(super) async fn stage<E: std::fmt::Display>(
    app: &App,
    body: impl Stream<Item = Result<Bytes, E>>,
) -> Result<StagedComponent, Error> {
    StagedComponent::receive(&app.host.temporary, app.max_upload_bytes, body).await
}
