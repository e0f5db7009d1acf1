//! The command line: one file for each subcommand.
//!
//! Every subcommand but `serve`, `doctor`, `backup`, `restore`, `mcp`, `images`, `sandbox`, `test`, `completions`, `audit verify` and what has `--oci` is a client of the HTTP API, of
//! the server that was named, of the one on this machine, or of one that this process opens
//! for itself (`local`). Only `output` prints.

mod alias;
mod approve;
mod artefact;
mod audit;
mod backup;
mod cancel;
mod client;
mod completions;
mod context;
mod delete;
mod diff;
mod doctor;
mod embed;
mod enable;
mod events;
mod exec;
mod exit;
mod files;
mod flags;
mod folder;
mod followed;
mod golden;
mod images;
mod install;
mod interceptors;
mod json_text;
mod keys;
mod limits;
mod list;
mod local;
mod lock;
mod logging;
mod login;
mod logs;
mod mcp;
mod mode;
mod multipart;
mod output;
mod owners;
mod partial;
mod place;
mod pull;
mod push;
mod report;
mod sample;
mod sandbox;
mod secrets;
mod serve;
mod show;
mod signals;
mod table;
mod tag;
mod time;
mod trust;
mod usage;
mod value;
mod versions;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::runtime::Builder;

use crate::config::Environment;
use crate::sandbox::compile_worker_main;

use self::client::Client;
use self::context::{Context, Global};
use self::exit::{EXIT_CODES_HELP, Exit, Failure};
use self::local::Connection;
use self::output::Output;
use self::signals::Signals;

/// A host for skills: sandboxed WebAssembly tools for AI agents, with hard limits and a full audit
#[derive(Parser)]
#[command(name = "skillvisor", version, max_term_width = 100, after_help = EXIT_CODES_HELP)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    #[command(subcommand)]
    Secrets(secrets::SecretsCommand),
    #[command(subcommand)]
    Interceptors(interceptors::InterceptorsCommand),
    #[command(subcommand)]
    Owners(owners::OwnersCommand),
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    Push(push::PushArgs),
    Test(golden::TestArgs),
    Pull(pull::PullArgs),
    Install(install::InstallArgs),
    Exec(exec::ExecArgs),
    List(list::ListArgs),
    Show(show::ShowArgs),
    Logs(logs::LogsArgs),
    Cancel(cancel::CancelArgs),
    Delete(delete::DeleteArgs),
    #[command(subcommand)]
    Files(files::FilesCommand),
    Versions(versions::VersionsArgs),
    #[command(subcommand)]
    Images(images::ImagesCommand),
    #[command(subcommand)]
    Sandbox(sandbox::SandboxCommand),
    #[command(subcommand)]
    Alias(alias::AliasCommand),
    Diff(diff::DiffArgs),
    Approve(approve::ApproveArgs),
    Mode(mode::ModeArgs),
    Tag(tag::TagArgs),
    Enable(enable::EnableArgs),
    Disable(enable::DisableArgs),
    Usage(usage::UsageArgs),
    Backup(backup::BackupArgs),
    Restore(backup::RestoreArgs),
    Doctor(doctor::DoctorArgs),
    Mcp(mcp::McpArgs),
    Completions(completions::CompletionsArgs),
}

/// Runs the command line with its arguments, the program's name first.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter().peekable();
    let program = arguments.next().unwrap_or_else(|| "skillvisor".into());
    // The worker compiles what others uploaded: it starts with nothing of ours around it.
    if arguments.next_if(|argument| argument == "compile-worker").is_some() {
        return compile_worker_main(arguments);
    }
    let cli = match Cli::try_parse_from(std::iter::once(program).chain(arguments)) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout with 0, usage to stderr with 2; nothing to do if that fails.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8));
        }
    };
    let output = Output::of_process(cli.global.json);
    let context = Context { global: cli.global, environment: Environment::of_process(), output };
    match run(&context, cli.command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output.failure(&failure);
            failure.exit.into()
        }
    }
}

fn run(context: &Context, command: Command) -> Result<Exit, Failure> {
    if let Command::Completions(args) = &command {
        return completions::run(context.output, args);
    }
    if let Command::Audit(audit::AuditCommand::Verify(args)) = &command {
        return audit::verify(context.output, args);
    }
    let runtime = threads().build().map_err(|error| Failure::internal(format!("cannot start threads: {error}")))?;
    let result = runtime.block_on(async {
        match command {
            Command::Serve(args) => serve::run(context, &args).await,
            Command::Doctor(args) => doctor::run(context, &args).await,
            Command::Backup(args) => backup::back_up(context, args).await,
            Command::Restore(args) => backup::restore(context, &args).await,
            Command::Mcp(_) => mcp::run(context).await,
            Command::Images(command) => images::run(context, &command).await,
            Command::Sandbox(command) => sandbox::run(context, &command).await,
            Command::Test(args) => golden::run(context, &args).await,
            Command::Push(push::PushArgs { path, oci: Some(reference), registry, .. }) => {
                artefact::push(context, &path, &reference, &registry).await
            }
            Command::Pull(args) if args.oci => pull::run_oci(context, &args).await,
            command => as_client(context, command).await,
        }
    });
    // A guest or a compiler may still hold a thread; the end of the process ends them too.
    runtime.shutdown_background();
    result
}

/// The threads that serve requests: one for every two processors. Guests have one for each, and
/// a run costs more there; with more threads each wakes others that find nothing to do, which
/// costs a busy host of two processors a twentieth of its throughput.
fn threads() -> Builder {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut threads = Builder::new_multi_thread();
    threads.worker_threads(processors.div_ceil(2)).enable_all();
    threads
}

/// Connects, runs a command, and leaves; a signal leaves too, and cancels what runs.
async fn as_client(context: &Context, command: Command) -> Result<Exit, Failure> {
    let mut signals = Signals::new()?;
    let interrupted = || Err(Failure::silent(Exit::Interrupted));
    let connection = tokio::select! {
        connection = Connection::open(context) => connection?,
        () = signals.next() => return interrupted(),
    };
    if let Command::Exec(args) = &command
        && args.is_async
        && connection.is_ours()
    {
        connection.close().await;
        return Err(Failure::usage("--async needs a server, which runs it when this command is over")
            .hint("start `skillvisor serve`, or leave --async out"));
    }
    let result = tokio::select! {
        result = call(context.output, &connection.client, command) => result,
        () = signals.next() => interrupted(),
    };
    // A host of our own closes the records of what ran; who is in a hurry signals again.
    tokio::select! {
        () = connection.close() => result,
        () = signals.next() => interrupted(),
    }
}

async fn call(output: Output, client: &Client, command: Command) -> Result<Exit, Failure> {
    let meant = command.meant().map(str::to_owned);
    let called = carry_out(output, client, command).await;
    called.map_err(|failure| match meant {
        Some(reference) => failure.about(&reference),
        None => failure,
    })
}

impl Command {
    /// The skill that the command is about.
    fn meant(&self) -> Option<&str> {
        match self {
            Self::Exec(args) => Some(&args.reference),
            Self::Show(args) => Some(&args.reference),
            Self::Delete(args) => Some(&args.reference),
            Self::Pull(args) => Some(&args.reference),
            Self::Enable(args) => Some(&args.reference),
            Self::Disable(args) => Some(&args.reference),
            _ => None,
        }
    }
}

async fn carry_out(output: Output, client: &Client, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Keys(command) => keys::run(output, client, command).await,
        Command::Secrets(command) => secrets::run(output, client, command).await,
        Command::Interceptors(command) => interceptors::run(output, client, command).await,
        Command::Owners(command) => owners::run(output, client, command).await,
        Command::Audit(command) => audit::run(output, client, command).await,
        Command::Push(args) => push::run(output, client, &args).await,
        Command::Pull(args) => pull::run(output, client, &args).await,
        Command::Install(args) => install::run(output, client, &args).await,
        Command::Exec(args) => exec::run(output, client, &args).await,
        Command::List(args) => list::run(output, client, &args).await,
        Command::Show(args) => show::run(output, client, &args).await,
        Command::Logs(args) => logs::run(output, client, &args).await,
        Command::Cancel(args) => cancel::run(output, client, &args).await,
        Command::Delete(args) => delete::run(output, client, &args).await,
        Command::Files(command) => files::run(output, client, command).await,
        Command::Versions(args) => versions::run(output, client, &args).await,
        Command::Alias(command) => alias::run(output, client, command).await,
        Command::Diff(args) => diff::run(output, client, &args).await,
        Command::Approve(args) => approve::run(output, client, &args).await,
        Command::Mode(args) => mode::run(output, client, &args).await,
        Command::Tag(args) => tag::run(output, client, &args).await,
        Command::Enable(args) => enable::run(output, client, &args.reference, true).await,
        Command::Disable(args) => enable::run(output, client, &args.reference, false).await,
        Command::Usage(args) => usage::run(output, client, &args).await,
        Command::Serve(_)
        | Command::Backup(_)
        | Command::Restore(_)
        | Command::Doctor(_)
        | Command::Mcp(_)
        | Command::Completions(_)
        | Command::Images(_)
        | Command::Sandbox(_)
        | Command::Test(_) => Err(Failure::internal("this command is no client")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_go_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_argument_takes_a_key() {
        let mut command = Cli::command();
        command.build();
        for command in command.get_subcommands() {
            for argument in command.get_arguments() {
                assert!(!matches!(argument.get_id().as_str(), "key" | "token" | "password"), "{argument}");
            }
        }
    }

    #[test]
    fn every_command_shows_an_example() {
        let mut command = Cli::command();
        command.build();
        for command in command.get_subcommands().filter(|command| command.get_name() != "help") {
            let nested = command.get_subcommands().count() > 0;
            assert!(nested || command.get_after_help().is_some(), "{}", command.get_name());
        }
    }
}
