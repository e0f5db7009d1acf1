//! What is kept of the steps of an execution: the values of the statements in `applying`.

use crate::model::{Digest, Execution, ExecutionId, Usage};
use crate::store::journal::{Record, Step, Values};
use crate::store::{key_days, to_json};

use super::{ArgsRecord, FinishedExecution, beside, place};

/// How many columns are known when an execution begins: `at_start!()`.
const AT_START: u8 = 18;
/// How many when it has ended: `at_end!()`.
const AT_END: u8 = 14;
/// Those of its result.
const OF_RESULT: u8 = 9;

/// An execution begins.
pub(super) fn opening(execution: &Execution, args: &ArgsRecord) -> rusqlite::Result<Record> {
    Record::new(Step::Open, execution.id, |values| {
        values.group(AT_START + 1);
        start(values, execution, args)?;
        values.push(place(execution.id))
    })
}

/// An execution has ended.
pub(super) fn closing(finished: &FinishedExecution) -> rusqlite::Result<Record> {
    let execution = &finished.execution;
    let step = if finished.waited { Step::CloseWaiting } else { Step::Close };
    Record::new(step, execution.id, |values| {
        values.group(OF_RESULT);
        result(values, execution)?;
        values.group(AT_START + AT_END);
        start(values, execution, &finished.args)?;
        end(values, finished)?;
        if finished.counts {
            key_days::used(values, execution)?;
        }
        beside::intercepted(values, finished)
    })
}

fn start(values: &mut Values, execution: &Execution, args: &ArgsRecord) -> rusqlite::Result<()> {
    values.push(execution.id.as_bytes())?;
    values.push(execution.owner.as_str())?;
    values.push(execution.status.as_str())?;
    values.push(execution.skill.as_bytes())?;
    values.push(&*execution.skill_address)?;
    values.push(&*execution.function)?;
    values.push(execution.digest.as_bytes())?;
    values.push(execution.key_id.as_str())?;
    values.push(execution.door.as_str())?;
    values.push(&execution.session_id)?;
    values.push(execution.parent_id.as_ref().map(ExecutionId::as_bytes))?;
    values.push(execution.attempts)?;
    values.push(execution.created_at)?;
    values.push(execution.started_at)?;
    values.push(queue_us(&execution.usage))?;
    values.push(args.digest.as_bytes())?;
    values.push(args.bytes)?;
    values.push(&args.copy)
}

fn end(values: &mut Values, finished: &FinishedExecution) -> rusqlite::Result<()> {
    let execution = &finished.execution;
    let error = execution.error.as_ref();
    values.push(execution.finished_at)?;
    values.push(execution.duration_us)?;
    values.push(integer(execution.usage.fuel))?;
    values.push(integer(execution.usage.memory_peak_bytes))?;
    values.push(integer(execution.usage.egress_bytes))?;
    values.push(execution.exit_code)?;
    values.push(error.map(|error| error.code.as_str()))?;
    values.push(error.map(|error| &error.message))?;
    values.push(error.and_then(|error| error.detail.as_ref()).map(to_json))?;
    values.push((!execution.denials.is_empty()).then(|| to_json(&execution.denials)))?;
    values.push(finished.output_digest.as_ref().map(Digest::as_bytes))?;
    values.push(execution.output.as_ref().map(|output| output.get().len()))?;
    values.push(&finished.output_copy)?;
    values.push((!execution.earlier.is_empty()).then(|| to_json(&execution.earlier)))
}

fn result(values: &mut Values, execution: &Execution) -> rusqlite::Result<()> {
    let (streams, said) = (&execution.streams, &execution.said);
    values.push(execution.id.as_bytes())?;
    values.push(execution.owner.as_str())?;
    values.push(execution.output.as_ref().map(|output| output.get()))?;
    values.push(&streams.stdout)?;
    values.push(&streams.stderr)?;
    values.push(streams.stdout_truncated)?;
    values.push(streams.stderr_truncated)?;
    values.push((!said.log.is_empty()).then(|| to_json(&said.log)))?;
    values.push(said.log_truncated)
}

/// Time in the queue in whole microseconds.
pub(in crate::store) fn queue_us(usage: &Usage) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "a float saturates, which is what is meant")]
    let us = (usage.queue_ms * 1000.0) as i64;
    us.max(0)
}

/// A count as SQLite stores it.
pub(in crate::store) fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
