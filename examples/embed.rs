//! A program of its own that runs skills, without HTTP.
//!
//! ```console
//! $ cargo run --example embed -- DATA_DIR skills/hello/hello.wasm '{"name":"Ada"}'
//! ```
//!
//! It registers the component for everybody, makes a key for a tenant that may do nothing but
//! run skills, runs the skill as that tenant within limits, and prints what the audit says.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "printing is all that this program is for")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use skillvisor::model::{OwnerId, Scope};
use skillvisor::{
    Caller, ExecutionFilter, ExecutionRequest, Host, HostOptions, LimitsPatch, Manifest, NewKey, StrictJson,
};

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    // Components are compiled by children of this very program. In one of them this call is
    // all there is; so it comes before arguments, logging and threads.
    let program = match skillvisor::compile_worker() {
        Ok(program) => program,
        Err(exit) => return exit,
    };
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [data_dir, component, args] = arguments.as_slice() else {
        eprintln!("usage: embed DATA_DIR COMPONENT ARGS");
        return ExitCode::from(2);
    };
    let result = tokio::runtime::Runtime::new()
        .map_err(Failure::from)
        .and_then(|runtime| runtime.block_on(embed(data_dir.as_ref(), program, component.as_ref(), args)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn embed(data_dir: &Path, program: PathBuf, component: &Path, args: &str) -> Result<(), Failure> {
    let host = Host::open(HostOptions::new(data_dir, program)).await?;
    let result = register_and_run(&host, component, args).await;
    // Also on failure: it gives the data directory free and leaves no write behind.
    host.close().await;
    result
}

async fn register_and_run(host: &Host, component: &Path, args: &str) -> Result<(), Failure> {
    let manifest = Manifest {
        name: Some("embedded".into()),
        version: Some("1.0.0".into()),
        // What `system` owns, every key may run.
        owner: Some(OwnerId::system()),
        ..Manifest::default()
    };
    let registered = host.register(&host.admin()?, manifest, std::fs::read(component)?).await?;
    let skill = &registered.skill().skill;
    println!("registered {} {}", skill.address(), skill.handler.digest());

    let tenant = tenant(host).await?;
    let mut request = ExecutionRequest::new(skill.address().parse()?, StrictJson::parse(args)?);
    request.limits = LimitsPatch { timeout_ms: Some(5_000), memory_mb: Some(64), ..LimitsPatch::default() };
    let execution = host.execute(tenant.clone(), request).await?;
    match (&execution.output, &execution.error) {
        (Some(output), _) => println!("{} {}", execution.status, output.get()),
        (None, Some(error)) => println!("{} {}: {}", execution.status, error.code, error.message),
        (None, None) => println!("{}", execution.status),
    }

    let mine = host.list_executions(&tenant, ExecutionFilter { limit: 10, ..ExecutionFilter::default() }).await?;
    for run in &mine.executions {
        println!("audit {} {} by {} fuel {}", run.skill_address, run.status, run.owner, run.usage.fuel);
    }
    Ok(())
}

/// The caller for a new tenant: a key with a namespace of its own that can only run skills.
async fn tenant(host: &Host) -> Result<Caller, Failure> {
    let new = NewKey { name: "tenant".into(), scopes: vec![Scope::SkillsExecute], ..NewKey::default() };
    let (_, secret) = host.access.create(&host.admin()?, new).await?;
    // A real program keeps the secret and asks with it for each request.
    Ok(host.caller(&secret)?)
}
