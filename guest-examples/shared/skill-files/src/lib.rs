//! What the skills for files share: which paths there are, how files are read and written, and how
//! what goes wrong is told.

mod path;
mod refusal;
mod workspace;

pub use path::{FilePath, is_restricted};
pub use refusal::Refusal;
pub use workspace::{Entry, Kind, Stat, Way, Workspace};

/// Most bytes that are read or written at once.
pub const MAX_BYTES: u64 = 1 << 20;
