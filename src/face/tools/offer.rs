//! Which tools a model is offered.

use crate::host::Host;
use crate::model::{Caller, Error, Scope};

use super::Described;

/// Most tools in one list: what the providers take.
const MOST: usize = 128;

/// The tools that a model is offered.
pub(in crate::face) struct Offer {
    pub(in crate::face) tools: Vec<Described>,
    /// How many there would be without an end to the list.
    pub(in crate::face) total: usize,
}

/// The tools that are `on`, by name, and behind them those of the `few` skills of mode `auto` that have most to
/// do with `context`.
///
/// # Errors
///
/// `insufficient_scope` without `skills:read`.
pub(in crate::face) fn offer(host: &Host, caller: &Caller, context: Option<&str>, few: usize) -> Result<Offer, Error> {
    let mut tools = host.registry.tools(caller)?;
    // Who may run nothing is offered nothing.
    if let Some(context) = context
        && caller.key.has(Scope::SkillsExecute)
    {
        let found = host.registry.relevant(caller, context, few)?;
        tools.extend(found.iter().flat_map(|skill| skill.tools()));
    }
    let described = tools.iter().take(MOST).map(Described::of).collect();
    Ok(Offer { tools: described, total: tools.len() })
}
