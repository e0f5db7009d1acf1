//! The audit's chain: each execution that ended and each administrative act is a record, whose
//! hash is over the hash before and what the record says. What is somebody's own (owner, key,
//! session, arguments, output and what was said) is in it only as salted commitments, so that
//! it can be forgotten and the chain stays whole. Checkpoints of it are signed (Ed25519).
//!
//! A record is made in the transaction that puts the row into the database which it stands for:
//! there is none without the other, whatever a crash leaves in the journal.

mod acts;
mod append;
mod checkpoints;
mod erasing;
mod export;
mod record;
mod retention;
mod signing;
mod verify;

#[cfg(test)]
mod tests;

pub use self::acts::Act;
pub use self::erasing::Erasure;
pub use self::export::AuditExport;
pub use self::signing::{AuditPublicKey, KEY_FILE as AUDIT_KEY_FILE};
pub use self::verify::{AuditReport, Broken, verify};

pub(super) use self::acts::acted;
pub(super) use self::append::Chain;
pub(super) use self::checkpoints::{begin, checkpoint, checkpoint_when_due, head_is_sound};
pub(super) use self::export::with_execution;
pub(super) use self::signing::Signer;
