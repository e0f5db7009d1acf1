//! Programs and servers that were not written for this host (SPEC §4, shapes 3 to 5).

mod async_handlers;
mod handlers;
mod modules;
mod programs;
mod wit;
