//! The doors: they translate and decide nothing.

pub mod cli;
pub mod http;
pub mod mcp;
mod tools;
