//! Tools of the host itself: finding skills, switching them, running them by any version, and
//! looking at what ran. Each is there for the keys that have its scope.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, Tool, ToolAnnotations};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::executor::ExecutionFilter;
use crate::host::Host;
use crate::model::{
    Caller, Clock, Code, Error, Execution, ExecutionId, ExecutionRequest, Key, LimitsPatch, Scope, StrictJson,
};
use crate::registry::RegisteredSkill;

use super::outcome;

/// Skills, and executions, that one answer has if nothing is said, and at most.
const FEW: u32 = 20;
const MANY: u32 = 200;

/// One of the tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Own {
    List,
    Enable,
    Execute,
    Executions,
}

impl Own {
    const ALL: [Self; 4] = [Self::List, Self::Enable, Self::Execute, Self::Executions];

    fn name(self) -> &'static str {
        match self {
            Self::List => "skills_list",
            Self::Enable => "skills_enable",
            Self::Execute => "skills_execute",
            Self::Executions => "skills_executions",
        }
    }

    /// Whether it is there for this key.
    fn is_for(self, key: &Key) -> bool {
        match self {
            Self::List => key.has(Scope::SkillsRead),
            Self::Enable => key.has(Scope::SkillsWrite),
            Self::Execute => key.has(Scope::SkillsExecute),
            Self::Executions => key.has(Scope::ExecutionsRead) || key.has(Scope::SkillsExecute),
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::List => {
                "Lists the skills of this host with their tools. With `context`, a text that says what you are about, \
                 it finds skills that are not among the tools and have to do with it; call them by their tools' names."
            }
            Self::Enable => "Enables or disables a skill. A disabled one cannot run and is no tool.",
            Self::Execute => "Runs a skill by name, version or range, or id, also where it is not among the tools.",
            Self::Executions => "Shows what ran, newest first, or one execution with its output.",
        }
    }

    fn schema(self) -> Value {
        let text = |about: &str| json!({ "type": "string", "description": about });
        let limit = json!({ "type": "integer", "minimum": 1, "maximum": MANY, "description": "How many at most." });
        let skill = text("The skill: `name`, `name@version-or-range`, `name@version#function`, or its id.");
        let (properties, required) = match self {
            Self::List => {
                let context = text("What you are about; finds skills of mode `auto`.");
                (json!({ "context": context, "limit": limit }), json!([]))
            }
            Self::Enable => {
                (json!({ "skill": skill, "enabled": { "type": "boolean", "default": true } }), json!(["skill"]))
            }
            Self::Execute => {
                let args = json!({ "description": "What goes in; an empty object if nothing is said." });
                let timeout =
                    json!({ "type": "integer", "minimum": 1, "description": "Longest time, in milliseconds." });
                (json!({ "skill": skill, "args": args, "timeout": timeout }), json!(["skill"]))
            }
            Self::Executions => {
                let id = text("The id of one execution.");
                let status = json!({ "enum": ["pending", "running", "success", "error", "timeout", "cancelled"] });
                (json!({ "id": id, "skill": text("Only of this skill."), "status": status, "limit": limit }), json!([]))
            }
        };
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    }

    fn tool(self) -> Tool {
        let schema = self.schema().as_object().cloned().unwrap_or_default();
        let annotations = match self {
            Self::List | Self::Executions => ToolAnnotations::new().read_only(true).open_world(false),
            Self::Enable => {
                ToolAnnotations::new().read_only(false).destructive(false).idempotent(true).open_world(false)
            }
            Self::Execute => ToolAnnotations::new().read_only(false),
        };
        Tool::new(self.name(), self.description(), Arc::new(schema)).with_annotations(annotations)
    }

    /// Runs it.
    pub(super) async fn run(
        self,
        host: &Host,
        caller: &Caller,
        arguments: &StrictJson,
    ) -> Result<CallToolResult, ErrorData> {
        let answer = match self {
            Self::List => list(host, caller, arguments),
            Self::Enable => enable(host, caller, arguments).await,
            Self::Execute => return execute(host, caller, arguments).await,
            Self::Executions => executions(host, caller, arguments).await,
        };
        match answer {
            Ok(value) => Ok(CallToolResult::structured(value)),
            Err(error) => outcome::of_error(&error),
        }
    }
}

/// The tools that are there for this key.
pub(super) fn offered(key: &Key) -> impl Iterator<Item = Tool> {
    Own::ALL.into_iter().filter(|own| own.is_for(key)).map(Own::tool)
}

/// The tool of this name, with or without the prefix that OmniRoute, another host of skills,
/// gives to it.
pub(super) fn named(name: &str, key: &Key) -> Option<Own> {
    let name = name.strip_prefix("omniroute_").unwrap_or(name);
    Own::ALL.into_iter().find(|own| own.name() == name && own.is_for(key))
}

/// Reads arguments, whose names are those of the schema.
fn read<T: DeserializeOwned>(arguments: &StrictJson) -> Result<T, Error> {
    if !arguments.text().trim_start().starts_with('{') {
        return Err(Error::at(Code::InvalidArgs, "", "the arguments must be an object"));
    }
    serde_json::from_str(arguments.text()).map_err(|error| {
        // It names the field between backticks.
        let text = error.to_string();
        let field = text.split('`').nth(1).map(|field| format!("/{field}")).unwrap_or_default();
        Error::at(Code::InvalidArgs, field, text)
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    context: Option<String>,
    limit: Option<u32>,
}

fn list(host: &Host, caller: &Caller, arguments: &StrictJson) -> Result<Value, Error> {
    let ListArguments { context, limit } = read(arguments)?;
    let most = usize::try_from(limit.unwrap_or(FEW).clamp(1, MANY)).unwrap_or_default();
    let found = match context {
        Some(context) => host.registry.relevant(caller, &context, most)?,
        None => host.registry.newest(caller)?,
    };
    let total = found.len();
    let skills: Vec<_> = found.iter().take(most).map(shown).collect();
    Ok(json!({ "skills": skills, "total": total }))
}

fn shown(registered: &Arc<RegisteredSkill>) -> Value {
    let skill = &registered.skill;
    let tools: Vec<_> = registered.tools().into_iter().map(|tool| tool.name).collect();
    json!({
        "id": skill.id, "name": skill.name, "version": skill.version, "description": skill.description,
        "enabled": skill.enabled, "mode": skill.mode, "state": skill.state, "tags": skill.tags, "tools": tools,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EnableArguments {
    skill: String,
    #[serde(default = "yes")]
    enabled: bool,
}

fn yes() -> bool {
    true
}

async fn enable(host: &Host, caller: &Caller, arguments: &StrictJson) -> Result<Value, Error> {
    let EnableArguments { skill, enabled } = read(arguments)?;
    let changed = host.registry.change(caller, &skill.parse()?, move |skill| skill.enabled = enabled).await?;
    Ok(shown(&changed))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExecuteArguments {
    #[serde(alias = "skillId", alias = "skillName")]
    skill: String,
    #[serde(alias = "input")]
    args: Option<Box<RawValue>>,
    timeout: Option<u64>,
}

async fn execute(host: &Host, caller: &Caller, arguments: &StrictJson) -> Result<CallToolResult, ErrorData> {
    let request = read::<ExecuteArguments>(arguments).and_then(|arguments| {
        let args = arguments.args.map(StrictJson::from_raw).transpose()?.unwrap_or_default();
        let limits = LimitsPatch { timeout_ms: arguments.timeout, ..LimitsPatch::default() };
        Ok(ExecutionRequest { limits, ..ExecutionRequest::new(arguments.skill.parse()?, args) })
    });
    let ended = match request {
        Ok(request) => host.execute(caller.clone(), request).await,
        Err(error) => Err(error),
    };
    match ended {
        Ok(execution) => Ok(outcome::of_execution(execution)),
        Err(error) if error.code == Code::InvalidArgs => outcome::of_error(&error.below("/args")),
        Err(error) => outcome::of_error(&error),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExecutionsArguments {
    id: Option<String>,
    #[serde(alias = "skillId")]
    skill: Option<String>,
    status: Option<String>,
    limit: Option<u32>,
}

async fn executions(host: &Host, caller: &Caller, arguments: &StrictJson) -> Result<Value, Error> {
    let asked: ExecutionsArguments = read(arguments)?;
    if let Some(id) = asked.id {
        let id: ExecutionId = id.parse().map_err(|_| Error::not_found("execution"))?;
        return Ok(record(&host.get_execution(caller, id).await?));
    }
    let filter = ExecutionFilter {
        skill: asked.skill,
        status: asked.status.map(|status| status.parse()).transpose()?,
        limit: asked.limit.unwrap_or(FEW).clamp(1, MANY),
        ..ExecutionFilter::default()
    };
    let page = host.list_executions(caller, filter).await?;
    Ok(json!({ "executions": page.executions.iter().map(record).collect::<Vec<_>>(), "total": page.total }))
}

fn record(execution: &Execution) -> Value {
    json!({
        "id": execution.id, "skillId": *execution.skill_address, "function": *execution.function,
        "status": execution.status, "output": execution.output, "error": execution.error,
        "denials": execution.denials, "door": execution.door, "usage": execution.usage,
        "createdAt": Clock::rfc3339(execution.created_at),
        "finishedAt": execution.finished_at.map(Clock::rfc3339),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Checker;

    #[test]
    fn what_the_schemas_take_is_what_is_read() {
        for (own, arguments) in [
            (Own::List, json!({ "context": "x", "limit": 3 })),
            (Own::Enable, json!({ "skill": "a", "enabled": false })),
            (Own::Execute, json!({ "skill": "a", "args": [1], "timeout": 5 })),
            (Own::Executions, json!({ "id": "x", "skill": "a", "status": "error", "limit": 1 })),
        ] {
            let known = own.schema()["properties"].as_object().unwrap().len();
            assert_eq!(known, arguments.as_object().unwrap().len(), "{own:?}");
            Checker::compile(&own.schema()).unwrap().check(&arguments).unwrap();
            let arguments = StrictJson::from(arguments);
            let read = match own {
                Own::List => read::<ListArguments>(&arguments).err(),
                Own::Enable => read::<EnableArguments>(&arguments).err(),
                Own::Execute => read::<ExecuteArguments>(&arguments).err(),
                Own::Executions => read::<ExecutionsArguments>(&arguments).err(),
            };
            assert!(read.is_none(), "{own:?}: {read:?}");
        }
        let wrong = read::<EnableArguments>(&StrictJson::from(json!({ "skil": "a" }))).err().unwrap();
        assert_eq!((wrong.code, wrong.fields[0].pointer.as_str()), (Code::InvalidArgs, "/skil"));
    }
}
