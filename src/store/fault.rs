//! What the driver's errors mean.

use std::io::{self, ErrorKind};

use rusqlite::ErrorCode;

use crate::model::{Code, Error};

/// The host's error for one of the disk's.
pub(super) fn io_fault(error: io::Error) -> Error {
    let (code, detail) = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => return super::writer::rolled_back(),
        ErrorKind::ReadOnlyFilesystem => (Code::Unavailable, "the data directory is read-only"),
        _ => return Error::internal(error),
    };
    Error { source: Some(error.into()), ..Error::new(code, detail).retry_after(5) }
}

/// The host's error for one of the driver's.
pub(super) fn fault(error: rusqlite::Error) -> Error {
    let code = error.sqlite_error_code();
    let (code, detail) = match code {
        Some(ErrorCode::DiskFull) => (Code::StorageFull, "the disk of the data directory is full"),
        Some(ErrorCode::ReadOnly) => (Code::Unavailable, "the data directory is read-only"),
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => {
            (Code::Unavailable, "the disk of the data directory does not answer")
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (Code::Unavailable, "another program holds the database of the data directory")
        }
        _ => return Error::internal(error),
    };
    Error { source: Some(error.into()), ..Error::new(code, detail).retry_after(5) }
}
