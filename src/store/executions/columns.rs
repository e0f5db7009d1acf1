//! The columns of the records, in their order.

/// What is known when an execution begins.
macro_rules! at_start {
    () => {
        "id, owner, status, skill_id, skill, function, digest, key_id, door, session_id, parent_id, attempts, \
         created_at, started_at, queue_us, args_sha256, args_bytes, args_copy"
    };
}

/// What is known when it has ended.
macro_rules! at_end {
    () => {
        "finished_at, duration_us, fuel, memory_peak_bytes, egress_bytes, exit_code, error_code, error_message, \
         error_detail, denials, output_sha256, output_bytes, output_copy, earlier"
    };
}

/// The same columns for one that has not.
macro_rules! open_as_ended {
    () => {
        "NULL AS finished_at, NULL AS duration_us, 0 AS fuel, 0 AS memory_peak_bytes, 0 AS egress_bytes, \
         NULL AS exit_code, NULL AS error_code, NULL AS error_message, NULL AS error_detail, NULL AS denials, \
         NULL AS output_sha256, NULL AS output_bytes, NULL AS output_copy, NULL AS earlier"
    };
}

/// The row of an execution that ended, with its columns in the order in which records have them.
pub(in crate::store) const ROW: &str =
    concat!("SELECT ", at_start!(), ", ", at_end!(), " FROM ended_executions WHERE id = ?1");

pub(super) use {at_end, at_start, open_as_ended};
