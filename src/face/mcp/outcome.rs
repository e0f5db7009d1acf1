//! What became of a call, as a result of the protocol.

use std::fmt::Write as _;

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, ErrorCode, JsonObject, MetaObject};
use serde_json::{Value, json};

use crate::model::{Code, Error, Execution, Status};

/// Where a result says which execution it is of.
const EXECUTION: &str = "skillvisor/executionId";
/// Where a result says what went wrong, in the words of all doors.
const CODE: &str = "skillvisor/code";

/// The end of a run.
pub(super) fn of_execution(execution: &Execution) -> CallToolResult {
    let mut meta = JsonObject::from_iter([(EXECUTION.to_owned(), json!(execution.id))]);
    if execution.status == Status::Success {
        let text = execution.output.as_ref().map_or("null", |output| output.get());
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        let shown = value.as_str().map_or_else(|| text.to_owned(), str::to_owned);
        let mut result = CallToolResult::success(vec![ContentBlock::text(shown)]);
        result.structured_content = value.is_object().then_some(value);
        return result.with_meta(Some(MetaObject(meta)));
    }
    let code = execution.error.as_ref().map_or(Code::Internal, |error| error.code);
    meta.insert(CODE.to_owned(), json!(code));
    CallToolResult::error(vec![ContentBlock::text(why(execution, code))]).with_meta(Some(MetaObject(meta)))
}

/// Why a run did not succeed, for a model: what happened, and what would have allowed it.
fn why(execution: &Execution, code: Code) -> String {
    let mut text = code.to_string();
    if let Some(error) = &execution.error {
        let _ = write!(text, ": {}", error.message);
        if let Some(detail) = &error.detail {
            let _ = write!(text, "\n{detail}");
        }
    }
    for denial in &execution.denials {
        let _ = write!(text, "\ndenied: {} {}; it needs {}: {}", denial.import, denial.asked, denial.grant, denial.fix);
    }
    text
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
    let mut text = format!("{}: {}", row.name, error.detail);
    for field in &error.fields {
        let place = if field.pointer.is_empty() { "/" } else { &field.pointer };
        let _ = write!(text, "\n{place}: {}", field.detail);
    }
    if let Some(seconds) = error.retry_after_s {
        let _ = write!(text, "\nIt may work after {seconds} s.");
    }
    let meta = JsonObject::from_iter([(CODE.to_owned(), json!(error.code))]);
    Ok(CallToolResult::error(vec![ContentBlock::text(text)]).with_meta(Some(MetaObject(meta))))
}
