//! `skillvisor images`.

use serde_json::json;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::sandbox::runner;

/// Fetch container images for skills, and list those of this machine
#[derive(clap::Subcommand)]
pub(super) enum ImagesCommand {
    Pull(PullArgs),
    List(ListArgs),
}

/// Fetch an image that skills may name (setting containers.allowed_images)
///
/// It asks the container engine of this machine and no server. Skills never fetch one when they run.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor images pull alpine:3.20")]
pub(super) struct PullArgs {
    /// The image
    #[arg(required = true)]
    images: Vec<String>,
}

/// List the images of this machine
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor images list --json")]
pub(super) struct ListArgs {}

pub(super) async fn run(context: &Context, command: &ImagesCommand) -> Result<Exit, Failure> {
    let output = context.output;
    let (runner, _scratch) = runner(context)?;
    let images = match command {
        ImagesCommand::List(_) => runner.images().await?,
        ImagesCommand::Pull(args) => {
            let mut images = Vec::new();
            for name in &args.images {
                let spinner = output.spinner(format!("Fetching {name}"));
                let pulled = runner.pull(name).await;
                spinner.finish_and_clear();
                images.push(pulled?);
            }
            images
        }
    };
    if output.json {
        output.json(&json!({ "images": images }))?;
    } else {
        let rows: Vec<_> = images.iter().map(|image| vec![image.name.clone(), image.id[..12].to_owned()]).collect();
        output.table(&["IMAGE", "ID"], &rows)?;
    }
    Ok(Exit::Success)
}
