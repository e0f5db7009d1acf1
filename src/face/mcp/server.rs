//! What `rmcp` asks of a server: one per request, or per session of an older revision.

use crate::face::tools::{of_caller, request};
use crate::host::Host;
use crate::model::{Code, Error, quotable};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult, ErrorCode, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::call::Call;
use super::changes::{Changes, tell};
use super::{catalogue, manage, outcome};

/// What a model is told of this server as a whole.
const INSTRUCTIONS: &str = "\
Each tool is a skill: a function that runs in a sandbox under hard limits. More skills may be there than are listed: \
`skills_list` with a `context` that says what you are about finds them, and they can be called by their tool's name.";

/// Answers the messages of one client.
pub(super) struct Tools {
    pub(super) host: Host,
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        let implementation = Implementation::new("skillvisor", env!("CARGO_PKG_VERSION")).with_title("Skillvisor");
        ServerConfig::new(capabilities).with_server_info(implementation).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let call = Call::of(&context.extensions)?;
        let cursor = request.and_then(|request| request.cursor);
        catalogue::page(&self.host, &call.caller, cursor.as_deref())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let call = Call::of(&context.extensions)?;
        let answer = self.answer(&request.name, call);
        tokio::select! {
            biased;
            result = answer => result.map(Into::into),
            // Dropping a run cancels it.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
            () = call.gone.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
        }
    }

    fn accepted_subscription_filter(&self, _requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let call = Call::of(&context.request_context().extensions)?;
        if context.accepted().tools_list_changed != Some(true) {
            tokio::select! {
                () = context.cancelled() => {}
                () = call.gone.cancelled() => {}
            }
            return Ok(());
        }
        let mut changes = Changes::of(&self.host, &call.caller);
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = call.gone.cancelled() => return Ok(()),
                () = changes.next() => {}
            }
            if context.sink().notify_tool_list_changed().await.is_err() {
                return Ok(());
            }
        }
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let Ok(call) = Call::of(&context.extensions) else { return };
        let Some(session) = call.session.as_ref().filter(|session| session.begins_to_be_told()) else { return };
        tokio::spawn(tell(Changes::of(&self.host, &call.caller), context.peer, session.ended.clone()));
    }

    /// What is of no known shape: a method that there is with parameters that it has not, or
    /// one that there is not.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = quotable(&request.method);
        if ["tools/call", "tools/list", "initialize", "server/discover"].contains(&request.method.as_str()) {
            return Err(ErrorData::invalid_params(format!("`params` are not those of {method}"), None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method {method}"), None))
    }
}

impl Tools {
    async fn answer(&self, name: &str, call: &Call) -> Result<CallToolResult, ErrorData> {
        let arguments = call.arguments.as_deref().cloned().unwrap_or_default();
        if let Some(tool) = manage::named(name, &call.caller.key) {
            return tool.run(&self.host, &call.caller, &arguments).await;
        }
        let unknown = |_: Error| ErrorData::invalid_params(format!("unknown tool: {}", quotable(name)), None);
        let tool = self.host.registry.tool(&call.caller, name).map_err(unknown)?;
        let request = match request(&tool, arguments) {
            Ok(request) => request,
            Err(error) => return outcome::of_error(&error),
        };
        match self.host.execute(call.caller.clone(), request).await {
            Ok(execution) => Ok(outcome::of_execution(execution)),
            Err(error) if error.code == Code::NotFound => Err(unknown(error)),
            Err(error) => outcome::of_error(&of_caller(error, &tool)),
        }
    }
}
