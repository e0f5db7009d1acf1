//! Skillvisor: a host for skills, small tools that AI agents and applications call.
//!
//! The rooms, lowest first: [`model`] (the words), [`telemetry`] (what is counted), [`store`] and [`sandbox`] (what is
//! remembered, what runs), [`access`] and [`registry`] (who may ask, for what), [`executor`]
//! (one request from start to record), [`host`] (everything built once), [`config`] (settings),
//! [`face`] (HTTP and the command line).

pub mod access;
pub mod config;
pub mod executor;
pub mod face;
pub mod host;
pub mod model;
pub mod registry;
pub mod sandbox;
pub mod store;
pub mod telemetry;

mod files;
