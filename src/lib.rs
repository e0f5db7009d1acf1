//! Skillvisor: a host for skills, small tools that AI agents and applications call.
//!
//! The crate is the `skillvisor` program, and the same host as a library. An embedder builds
//! a [`Host`], registers components and executes them; HTTP is not needed. What a call may
//! do is decided by the key behind it, at every door alike.
//!
//! ```standalone_crate
//! use std::process::ExitCode;
//!
//! use serde_json::json;
//! use skillvisor::{
//!     AliasMove, Asked, Before, ExecutionFilter, ExecutionRequest, Host, HostOptions, Interceptor, Manifest,
//!     NativeInterceptor, Status,
//! };
//!
//! /// Refuses to greet some.
//! struct Doorman;
//!
//! impl Interceptor for Doorman {
//!     fn before(&self, asked: &mut Asked<'_>) -> Before {
//!         if asked.args().contains("Mallory") { Before::Reject("not on the list".into()) } else { Before::Continue }
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     // First of all: components are compiled by children of this program.
//!     let program = match skillvisor::compile_worker() {
//!         Ok(program) => program,
//!         Err(exit) => return exit,
//!     };
//!     let directory = tempfile::tempdir().unwrap();
//!     let mut options = HostOptions::new(directory.path().join("data"), program);
//!     options.interceptors.push(NativeInterceptor::new("doorman".parse().unwrap(), Doorman));
//!     tokio::runtime::Runtime::new().unwrap().block_on(run(options)).unwrap();
//!     ExitCode::SUCCESS
//! }
//!
//! async fn run(options: HostOptions) -> Result<(), Box<dyn std::error::Error>> {
//!     let host = Host::open(options).await?;
//!     let caller = host.admin()?;
//!
//!     let manifest = Manifest::parse(r#"{ "name": "hello", "version": "1.0.0" }"#)?;
//!     host.register(&caller, manifest, std::fs::read("skills/hello/hello.wasm")?).await?;
//!
//!     let request = ExecutionRequest::new("hello@^1".parse()?, json!({ "name": "Ada" }).into());
//!     let execution = host.execute(caller.clone(), request).await?;
//!     assert_eq!(execution.status, Status::Success);
//!     assert_eq!(execution.output.as_ref().unwrap().get(), r#"{"greeting":"Hello, Ada!"}"#);
//!
//!     // The run was on the disk before it was answered.
//!     let record = host.get_execution(&caller, execution.id).await?;
//!     assert_eq!(record.usage.fuel, execution.usage.fuel);
//!     assert_eq!(host.count_executions(&caller, ExecutionFilter::default()).await?, 1);
//!
//!     // It stands around every run, and its word is on record.
//!     let request = ExecutionRequest::new("hello".parse()?, json!({ "name": "Mallory" }).into());
//!     let refused = host.execute(caller.clone(), request).await?;
//!     assert_eq!(refused.error.as_ref().unwrap().message, "the interceptor `doorman` refused: not on the list");
//!     assert_eq!(refused.interceptors[0].name.as_str(), "doorman");
//!
//!     // Another version asks for more, and says so; what calls `hello@stable` stays with the first.
//!     let first = AliasMove { alias: "stable".parse()?, to: "1.0.0".parse()?, from: None };
//!     host.move_alias(&caller, &"hello".parse()?, first).await?;
//!     let manifest = r#"{ "name": "hello", "version": "1.1.0", "grants": { "kv": true } }"#;
//!     host.register(&caller, Manifest::parse(manifest)?, std::fs::read("skills/hello/hello.wasm")?).await?;
//!     let difference = host.difference(&caller, &"hello@1.1.0".parse()?, None).await?;
//!     assert!(difference.grows());
//!     assert_eq!(difference.changes[0].says, "it may keep values, which 1.0.0 might not");
//!     let stable = host.get(&caller, &"hello@stable".parse()?)?;
//!     assert_eq!(stable.skill.version.to_string(), "1.0.0");
//!     host.close().await;
//!     Ok(())
//! }
//! ```
//!
//! `examples/embed.rs` in the repository is a whole program, with keys and limits. What
//! the library does not do yet: native handlers.
//!
#![doc = include_str!("../docs/ARCHITECTURE.md")]

// The rooms themselves are for this repository: `--cfg internals` shows them to rustdoc. What
// an embedder uses stands below, and is all that SemVer speaks of.
#[cfg_attr(not(internals), doc(hidden))]
pub mod access;
#[cfg_attr(not(internals), doc(hidden))]
pub mod catalogue;
#[cfg_attr(not(internals), doc(hidden))]
pub mod config;
#[cfg_attr(not(internals), doc(hidden))]
pub mod egress;
#[cfg_attr(not(internals), doc(hidden))]
pub mod executor;
#[cfg_attr(not(internals), doc(hidden))]
pub mod face;
#[cfg_attr(not(internals), doc(hidden))]
pub mod host;
pub mod model;
#[cfg_attr(not(internals), doc(hidden))]
pub mod registry;
#[cfg_attr(not(internals), doc(hidden))]
pub mod sandbox;
#[cfg_attr(not(internals), doc(hidden))]
pub mod secrets;
#[cfg_attr(not(internals), doc(hidden))]
pub mod sources;
#[cfg_attr(not(internals), doc(hidden))]
pub mod store;
#[cfg_attr(not(internals), doc(hidden))]
pub mod telemetry;

#[cfg_attr(not(internals), doc(hidden))]
pub mod workspace;

mod files;

pub use crate::access::{Access, NewKey};
pub use crate::catalogue::CatalogueSettings;
pub use crate::egress::EgressSettings;
pub use crate::executor::{
    AdmissionSettings, After, Asked, Before, ExecutionFilter, ExecutionPage, Following, Interceptor, InterceptorPatch,
    NativeInterceptor, NewInterceptor, Once, Outcome, Told,
};
pub use crate::host::{Host, HostOptions, Install, Named, Queued};
pub use crate::model::{
    Alias, Approval, ApprovalPolicy, Caller, Code, ContainerPolicy, Disabled, EngineChoice, Error, Event, Execution,
    ExecutionRequest, GitPart, Heard, ImageRef, Limits, LimitsPatch, Saying, Skill, SkillRef, SkillSource, Source,
    SourceRule, Status, StrictJson, compare_versions, satisfies,
};
pub use crate::registry::{AliasMove, Change, ChangeKind, Difference, Manifest, Registered, RegisteredSkill};
pub use crate::sandbox::{
    CompileSettings, Image, ReuseSettings, SandboxConfig, SandboxResult, SandboxRunner, compile_worker,
};
pub use crate::sources::{Login, SourceSettings};
pub use crate::store::{AuditExport, AuditPublicKey, AuditReport, Broken, verify_audit};
pub use crate::workspace::Quota;
