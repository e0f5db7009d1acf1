//! `structured-log`: a line of the host's log for each run that begins and each that ends, without anything that
//! went in or came out.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::model::Error;

use super::super::contract::{After, Asked, Before, Interceptor, Outcome};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {}

struct Log;

/// Makes one.
pub(super) fn make(config: Map<String, Value>) -> Result<Arc<dyn Interceptor>, Error> {
    let Settings {} = super::settings(config)?;
    Ok(Arc::new(Log))
}

impl Interceptor for Log {
    fn may_change(&self) -> bool {
        false
    }

    fn before(&self, asked: &mut Asked<'_>) -> Before {
        let execution = asked.execution();
        tracing::info!(
            execution.id = %execution.id, execution.owner = %execution.owner, skill.address = %execution.skill_address,
            skill.function = %execution.function, key.id = %execution.key_id, door = execution.door.as_str(),
            args.bytes = asked.args().len(),
            "An execution begins",
        );
        Before::Continue
    }

    fn after(&self, outcome: &mut Outcome<'_>) -> After {
        let execution = outcome.execution();
        tracing::info!(
            execution.id = %execution.id, execution.owner = %execution.owner, skill.address = %execution.skill_address,
            skill.function = %execution.function, key.id = %execution.key_id, door = execution.door.as_str(),
            attempts = execution.attempts, output.bytes = outcome.output().map_or(0, str::len),
            error.code = outcome.error().map_or("-", |error| error.code.as_str()),
            "An execution comes to its end",
        );
        After::Pass
    }
}
