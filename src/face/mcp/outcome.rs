//! What became of a call, as a result of the protocol.

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, ErrorCode, JsonObject, MetaObject};
use serde_json::json;

use crate::face::tools::{Said, refusal};
use crate::model::{Code, Error, Execution};

/// Where a result says which execution it is of.
const EXECUTION: &str = "skillvisor/executionId";
/// Where a result says what went wrong, in the words of all doors.
const CODE: &str = "skillvisor/code";

/// The end of a run.
pub(super) fn of_execution(execution: Execution) -> CallToolResult {
    let mut meta = JsonObject::from_iter([(EXECUTION.to_owned(), json!(execution.id))]);
    let said = Said::of(execution);
    let content = vec![ContentBlock::text(said.text)];
    let result = match said.outcome {
        Ok(output) => {
            let mut result = CallToolResult::success(content);
            let object = output.filter(|output| output.get().starts_with('{'));
            result.structured_content = object.and_then(|object| serde_json::from_str(object.get()).ok());
            result
        }
        Err(code) => {
            meta.insert(CODE.to_owned(), json!(code));
            CallToolResult::error(content)
        }
    };
    result.with_meta(Some(MetaObject(meta)))
}

/// Why there was no run. What a model can mend is a result, and so is what may work later;
/// the rest is an error of the protocol, as the table of codes says.
pub(super) fn of_error(error: &Error) -> Result<CallToolResult, ErrorData> {
    if error.source.is_some() {
        tracing::error!("A call failed: {error:?}");
    }
    let row = error.code.row();
    let code = match error.code {
        Code::Unauthenticated | Code::Forbidden | Code::InsufficientScope => Some(ErrorCode::INVALID_REQUEST),
        // A reference in arguments is one of those; a tool that is not there is found before.
        Code::NotFound | Code::Malformed => None,
        _ => row.mcp.parse().ok().filter(|code| *code < 0).map(ErrorCode),
    };
    if let Some(code) = code {
        return Err(ErrorData::new(code, error.detail.clone(), Some(json!({ "code": row.name }))));
    }
    let meta = JsonObject::from_iter([(CODE.to_owned(), json!(error.code))]);
    Ok(CallToolResult::error(vec![ContentBlock::text(refusal(error))]).with_meta(Some(MetaObject(meta))))
}
