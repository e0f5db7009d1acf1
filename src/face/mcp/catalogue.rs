//! What there is: skills as tools, and the page of them that was asked for.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{CacheScope, ListToolsResult, Tool, ToolAnnotations};

use crate::face::tools::{description, schema};
use crate::host::Host;
use crate::model::{Caller, Grants, Scope};
use crate::registry::ToolRef;

use super::manage;

/// Tools on one page.
const PAGE: usize = 500;
/// How long a client may take a list for the newest, in milliseconds: one that does not listen
/// for changes finds a new skill after as long.
const FRESH_MS: u64 = 1000;

/// The page of the list that begins at `cursor`, in the order of the names.
///
/// # Errors
///
/// Invalid parameters for a cursor that no page gave.
pub(super) fn page(host: &Host, caller: &Caller, cursor: Option<&str>) -> Result<ListToolsResult, ErrorData> {
    let after = cursor.map(read_cursor).transpose()?.unwrap_or_default();
    let mut tools: Vec<Entry> = manage::offered(&caller.key).map(Entry::Own).collect();
    tools.extend(skills(host, caller).into_iter().map(Entry::Skill));
    tools.retain(|tool| tool.name() > after.as_str());
    tools.sort_by(|a, b| a.name().cmp(b.name()));
    let more = tools.len() > PAGE;
    tools.truncate(PAGE);
    let next = tools.last().filter(|_| more).map(|last| hex::encode(last.name()));
    let mut page = ListToolsResult::with_all_items(tools.into_iter().map(Entry::tool).collect());
    page.next_cursor = next;
    Ok(page.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Private))
}

/// The skills' tools alone. A key that may not look sees none.
fn skills(host: &Host, caller: &Caller) -> Vec<ToolRef> {
    if !caller.key.has(Scope::SkillsRead) {
        return Vec::new();
    }
    host.registry.tools(caller).unwrap_or_default()
}

/// What tells one list from another: names, and the versions behind them, which never change.
pub(super) fn fingerprint(host: &Host, caller: &Caller) -> Vec<(String, crate::model::SkillId)> {
    skills(host, caller).into_iter().map(|tool| (tool.name, tool.skill.skill.id)).collect()
}

enum Entry {
    Own(Tool),
    Skill(ToolRef),
}

impl Entry {
    fn name(&self) -> &str {
        match self {
            Self::Own(tool) => &tool.name,
            Self::Skill(tool) => &tool.name,
        }
    }

    fn tool(self) -> Tool {
        match self {
            Self::Own(tool) => tool,
            Self::Skill(tool) => described(tool),
        }
    }
}

fn read_cursor(cursor: &str) -> Result<String, ErrorData> {
    let name = hex::decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    name.ok_or_else(|| ErrorData::invalid_params("the cursor is not a `nextCursor` of this list", None))
}

fn described(tool: ToolRef) -> Tool {
    let skill = &tool.skill.skill;
    let Some(function) = skill.functions.get(tool.function) else { return Tool::default() };
    let description = Cow::Owned(description(&tool));
    let input = schema::input(function.schema.input.as_ref());
    let mut described = Tool::new_with_raw(tool.name, Some(description), Arc::new(input));
    described.output_schema = schema::output(function.schema.output.as_ref()).map(Arc::new);
    let is_only = skill.functions.iter().filter(|function| function.callable).count() == 1;
    let title = if is_only { skill.name.as_str() } else { function.name.as_str() };
    described.with_annotations(annotations(title, skill.grants == Grants::default(), &skill.imports))
}

/// What the sandbox makes true: a skill that was granted nothing, and can ask the host for
/// nothing but clocks, chance and its own streams, changes nothing.
fn annotations(title: &str, ungranted: bool, imports: &[String]) -> ToolAnnotations {
    let harmless = |import: &String| {
        ["wasi:cli/", "wasi:clocks/", "wasi:io/", "wasi:random/", "wasi:filesystem/", "skillvisor:skill/types"]
            .iter()
            .any(|known| import.starts_with(known))
    };
    if ungranted && imports.iter().all(harmless) {
        return ToolAnnotations::with_title(title).read_only(true).idempotent(true).open_world(false);
    }
    ToolAnnotations::with_title(title).read_only(false)
}
