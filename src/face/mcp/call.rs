//! What a handler of the protocol must know of the HTTP request behind a message.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::Extensions;
use tokio_util::sync::CancellationToken;

use crate::model::{Caller, StrictJson};

use super::sessions::Life;

/// Who sent a message, and whether they are still there.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The key that came with this very message.
    pub(super) caller: Caller,
    /// `params.arguments` as they were written: a tree would lose the digits of large numbers.
    pub(super) arguments: Option<Arc<StrictJson>>,
    /// Cancelled once nobody waits for the answer any more.
    pub(super) gone: CancellationToken,
    /// The session of an older revision, where the message belongs to one.
    pub(super) session: Option<Life>,
}

impl Call {
    /// The call behind a message.
    ///
    /// # Errors
    ///
    /// An internal error if the message did not come through the endpoint.
    pub(super) fn of(extensions: &Extensions) -> Result<&Self, ErrorData> {
        let parts = extensions.get::<http::request::Parts>();
        let call = parts.and_then(|parts| parts.extensions.get::<Self>());
        call.ok_or_else(|| ErrorData::internal_error("the message has no sender", None))
    }
}
