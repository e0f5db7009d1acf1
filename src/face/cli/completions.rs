//! `skillvisor completions`.

use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;
use super::exit::{Exit, Failure};
use super::output::Output;

/// Print a script that completes commands in a shell
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor completions bash > ~/.local/share/bash-completion/completions/skillvisor
  skillvisor completions zsh > ~/.zfunc/_skillvisor")]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(super) fn run(output: Output, args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "skillvisor", &mut script);
    output.bytes(&script)?;
    Ok(Exit::Success)
}
