//! The doors: they translate and decide nothing.

pub mod http;
