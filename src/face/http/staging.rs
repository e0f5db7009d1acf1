//! An uploaded component on its way to the disk.

use bytes::Bytes;
use futures_util::{Stream, StreamExt};

use crate::model::Error;
use crate::registry::StagedComponent;

use super::held::Room;
use super::{App, read};

/// Writes `body` to a temporary file and syncs it, and takes `room` for it, which the caller
/// keeps as long as the file; see [`StagedComponent::receive`].
///
/// # Errors
///
/// Those, and `malformed` if the body breaks off, `request_timeout` if it comes too slowly;
/// `overloaded` or `queue_full` if there is no room for it among the uploads under way.
pub(super) async fn stage<E: std::error::Error + 'static>(
    app: &App,
    room: &mut Room,
    body: impl Stream<Item = Result<Bytes, E>>,
) -> Result<StagedComponent, Error> {
    let body = body.map(|chunk| {
        let chunk = chunk.map_err(|error| read::broken_off(&error))?;
        room.grow(chunk.len())?;
        Ok(chunk)
    });
    StagedComponent::receive(&app.host.temporary, app.max_upload_bytes, body).await
}
