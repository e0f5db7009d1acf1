//! The one table of failures: what each code means at every door.

use std::fmt;

use serde::Serialize;

/// What one [`Code`] means at each door.
#[derive(Clone, Copy, Debug)]
pub struct CodeRow {
    /// The word that clients match on. Never renamed, never reused.
    pub name: &'static str,
    /// HTTP status. 200 for the end of a run: the request itself was carried out.
    pub http: u16,
    /// Whether the same request may succeed later without a change.
    pub retry: bool,
    /// What an MCP client sees: a JSON-RPC error code, an HTTP status, or `isError` in a result.
    pub mcp: &'static str,
    /// What an A2A client sees: a JSON-RPC error code, an HTTP status, or a task state.
    pub a2a: &'static str,
    /// Exit status of the command line.
    pub exit: u8,
    /// One line for the documentation.
    pub meaning: &'static str,
}

/// Declares the codes and their rows, so that neither can exist without the other.
macro_rules! codes {
    ($($variant:ident $name:literal $http:literal $retry:literal $mcp:literal $a2a:literal $exit:literal $meaning:literal;)*) => {
        /// The stable name of a failure, the same word in HTTP, MCP, A2A, the command
        /// line, the audit and the metrics.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $meaning] $variant,)*
        }

        impl Code {
            /// Every code, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// What the code means at each door.
            pub const fn row(self) -> CodeRow {
                match self {
                    $(Self::$variant => CodeRow {
                        name: $name, http: $http, retry: $retry, mcp: $mcp, a2a: $a2a,
                        exit: $exit, meaning: $meaning,
                    },)*
                }
            }
        }
    };
}

codes! {
    Malformed "malformed" 400 false "-32600" "-32600" 6 "The request cannot be read: bad JSON, an unknown field, a wrong type.";
    Unauthenticated "unauthenticated" 401 false "401" "401" 3 "No key, or one that is unknown, expired or revoked.";
    Forbidden "forbidden" 403 false "403" "403" 3 "The key may not do this, whatever its scopes.";
    InsufficientScope "insufficient_scope" 403 false "403" "403" 3 "The key lacks the scope that this needs.";
    Denied "denied" 403 false "isError" "failed" 3 "A grant or ceiling does not allow it. As the end of a run: a host-side skill or a child call was refused.";
    ImageNotAllowed "image_not_allowed" 403 false "403" "403" 3 "The container image is not on the allow-list.";
    NotFound "not_found" 404 false "-32602" "-32001" 4 "It does not exist, or this key may not see it.";
    MethodNotAllowed "method_not_allowed" 405 false "-32601" "-32601" 6 "The path exists, the method does not.";
    RequestTimeout "request_timeout" 408 true "408" "408" 7 "The request did not come whole in time; the connection is closed.";
    Conflict "conflict" 409 false "isError" "failed" 5 "It exists already and is different.";
    DigestMismatch "digest_mismatch" 409 false "isError" "failed" 5 "The skill's digest is not the one that was asked for.";
    SkillDisabled "skill_disabled" 409 false "isError" "failed" 5 "The skill is disabled (`enabled` is false or `mode` is off).";
    ApprovalRequired "approval_required" 409 false "isError" "failed" 5 "The skill waits for someone to approve it.";
    SkillFailed "skill_failed" 409 false "isError" "failed" 5 "The skill could not be made ready; its `problem` says why.";
    AlreadyFinished "already_finished" 409 false "isError" "-32002" 5 "The execution has ended.";
    TooLarge "too_large" 413 false "413" "413" 6 "The request is larger than the limit it names.";
    UnsupportedMediaType "unsupported_media_type" 415 false "415" "415" 6 "The content type is not one of those accepted here.";
    InvalidArgs "invalid_args" 422 false "isError" "-32602" 6 "The arguments do not match the skill's input schema.";
    InvalidManifest "invalid_manifest" 422 false "isError" "-32602" 6 "The manifest has a value that is not allowed.";
    InvalidComponent "invalid_component" 422 false "isError" "-32602" 6 "The upload is not a component that can run here.";
    ReservedName "reserved_name" 422 false "isError" "-32602" 6 "The name is a word of the interface itself.";
    UnknownComponent "unknown_component" 422 false "isError" "-32602" 6 "This owner has uploaded no component with that digest.";
    GrantUnsupported "grant_unsupported" 422 false "isError" "-32602" 6 "This kind of skill cannot be given that grant.";
    NotSupported "not_supported" 422 false "isError" "-32602" 6 "The field is understood, but this version has not its effect.";
    IdempotencyMismatch "idempotency_mismatch" 422 false "isError" "-32602" 6 "The Idempotency-Key was used with another request.";
    RateLimited "rate_limited" 429 true "isError" "failed" 7 "Too many requests of this key.";
    BudgetExhausted "budget_exhausted" 429 true "isError" "failed" 7 "The key's budget for today is used up.";
    QueueFull "queue_full" 429 true "isError" "failed" 7 "Too many executions of this owner are waiting.";
    Overloaded "overloaded" 503 true "isError" "failed" 7 "The host has too much to do.";
    Compiling "compiling" 503 true "isError" "failed" 7 "The skill is not ready yet.";
    Unavailable "unavailable" 503 true "isError" "failed" 7 "What the skill needs is not there. As the end of a run: it was lost on the way.";
    StorageFull "storage_full" 507 true "isError" "failed" 7 "There is no room for it on the disk or in the quota.";
    Internal "internal" 500 false "-32603" "-32603" 70 "Something broke inside the host; its log says what.";
    SkillError "skill_error" 200 false "isError" "failed" 1 "The skill said no, with a code and message of its own.";
    Trap "trap" 200 false "isError" "failed" 1 "The guest did something that WebAssembly forbids, or panicked.";
    OutOfFuel "out_of_fuel" 200 false "isError" "failed" 1 "The guest used up its fuel (`limits.fuel`).";
    OutOfMemory "out_of_memory" 200 false "isError" "failed" 1 "The guest wanted more memory than `limits.memoryMb`.";
    OutputTooLarge "output_too_large" 200 false "isError" "failed" 1 "The output is larger than `limits.outputBytes`.";
    InvalidOutput "invalid_output" 200 false "isError" "failed" 1 "The output is not JSON or does not match the output schema.";
    Timeout "timeout" 200 false "isError" "failed" 1 "The deadline (`limits.timeoutMs`) passed.";
    Cancelled "cancelled" 200 false "isError" "canceled" 1 "Somebody cancelled the execution, or the caller left.";
    Interrupted "interrupted" 200 true "isError" "failed" 1 "The host died while the execution ran.";
    Rejected "rejected" 200 false "isError" "rejected" 1 "An interceptor refused the execution.";
    ExitNonzero "exit_nonzero" 200 false "isError" "failed" 1 "The command ended with an exit code that is not 0.";
}

impl Code {
    /// The word that clients match on.
    pub const fn as_str(self) -> &'static str {
        self.row().name
    }

    /// The code with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == name)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_read_back() {
        for code in Code::ALL {
            assert_eq!(Code::from_name(code.as_str()), Some(*code));
        }
    }

    #[test]
    fn what_can_be_retried_says_so_with_its_status() {
        for row in Code::ALL.iter().map(|code| code.row()) {
            assert_eq!(row.retry && row.http != 200, matches!(row.http, 408 | 429 | 503 | 507), "{}", row.name);
        }
    }
}
