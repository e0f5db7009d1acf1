//! Whose things are meant, where an admin key may name another owner.

use serde::Deserialize;
use utoipa::IntoParams;

use crate::model::OwnerId;

/// Whose it is.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct OwnerQuery {
    /// Another owner, such as `system`; admin keys only. `apiKeyId` is another name for it.
    #[serde(alias = "apiKeyId")]
    #[param(value_type = Option<String>)]
    pub(super) owner: Option<OwnerId>,
}
