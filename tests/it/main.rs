//! The one integration-test binary: the real program, the real database, real guests.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what is meant")]

/// Starting the program and talking to it.
mod support;

/// The main job: upload, run, find it again; and what bad input gets.
mod main_job;

/// Hostile guests: every limit bites, and the host is there afterwards.
mod limits;

/// Keys, and what other owners may see.
mod keys;

/// Crashes: nothing acknowledged is lost.
mod recovery;

/// The host as a library.
mod library;

/// What the README tells people to type.
mod readme;

/// Rules about the repository itself.
mod tidy;
