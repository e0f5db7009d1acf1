//! `skillvisor files`.

use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_util::io::ReaderStream;

use super::client::{Client, Upload};
use super::exit::{Exit, Failure};
use super::output::Output;
use super::partial::Partial;
use super::{table, value};

/// Bytes that are read and sent at a time.
const CHUNK: usize = 64 << 10;

/// List, get, put and remove the files of the workspace
#[derive(clap::Subcommand)]
pub(super) enum FilesCommand {
    Ls(LsArgs),
    Get(GetArgs),
    Put(PutArgs),
    Rm(RmArgs),
}

/// List a directory of the workspace
///
/// Needs the scope files:read.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor files ls
  skillvisor files ls reports --json")]
pub(super) struct LsArgs {
    /// The directory; the whole workspace's own if not given
    #[arg(value_name = "PATH", default_value = "")]
    path: String,
    /// Whose files; admin keys only
    #[arg(long)]
    owner: Option<String>,
}

/// Get a file of the workspace
///
/// It is there as a whole in the end, or not at all. Needs the scope files:read.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor files get reports/2026.csv
  skillvisor files get reports/2026.csv - | head")]
pub(super) struct GetArgs {
    /// The file in the workspace
    #[arg(value_name = "PATH")]
    path: String,
    /// Where to put it, or - for stdout; under its own name if not given
    #[arg(value_name = "FILE")]
    to: Option<PathBuf>,
    /// Whose files; admin keys only
    #[arg(long)]
    owner: Option<String>,
}

/// Put a file into the workspace
///
/// In place of what is there, as a whole or not at all. Directories above it are made. Needs
/// the scope files:write.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor files put table.csv
  skillvisor files put table.csv data/2026.csv")]
pub(super) struct PutArgs {
    /// The file on this machine
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its path in the workspace; its own name if not given
    #[arg(value_name = "PATH")]
    path: Option<String>,
    /// Whose files; admin keys only
    #[arg(long)]
    owner: Option<String>,
}

/// Remove a file or a directory of the workspace
///
/// Needs the scope files:write.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor files rm reports/2026.csv
  skillvisor files rm --recursive reports")]
pub(super) struct RmArgs {
    /// The file or directory in the workspace
    #[arg(value_name = "PATH")]
    path: String,
    /// A directory with all that is in it
    #[arg(long, short)]
    recursive: bool,
    /// Whose files; admin keys only
    #[arg(long)]
    owner: Option<String>,
}

pub(super) async fn run(output: Output, client: &Client, command: FilesCommand) -> Result<Exit, Failure> {
    match command {
        FilesCommand::Ls(args) => ls(output, client, &args).await,
        FilesCommand::Get(args) => get(output, client, &args).await,
        FilesCommand::Put(args) => put(output, client, &args).await,
        FilesCommand::Rm(args) => rm(output, client, &args).await,
    }
}

async fn ls(output: Output, client: &Client, args: &LsArgs) -> Result<Exit, Failure> {
    let path = segments(&args.path)?;
    let mut entries = Vec::new();
    let mut cursor: Option<String> = None;
    let total = loop {
        let query = [("owner", args.owner.as_deref()), ("cursor", cursor.as_deref()), ("limit", Some("1000"))];
        let answer = client.download(&path, &query).await?;
        let is_list = answer.headers().get("content-type").is_some_and(|kind| kind == "application/json");
        if !is_list {
            return Err(Failure::usage(format!("{} is a file; `skillvisor files get` gets it", args.path)));
        }
        let text = answer.text().await;
        let text = text.map_err(|error| Failure::unreachable(format!("the list broke off: {error}")))?;
        let page: Value = serde_json::from_str(&text).map_err(|_| Failure::unreachable("the answer is not JSON"))?;
        entries.extend_from_slice(value::list(&page, "entries"));
        match page.get("nextCursor").and_then(Value::as_str) {
            Some(next) if cursor.as_deref() != Some(next) => cursor = Some(next.to_owned()),
            _ => break page.get("total").cloned().unwrap_or_default(),
        }
    };
    if output.json {
        output.json(&json!({ "entries": entries, "nextCursor": null, "total": total }))?;
    } else if entries.is_empty() {
        output.note("no files");
    } else {
        let row = |entry: &Value| {
            let size = entry.get("size").and_then(Value::as_u64).map(table::bytes).unwrap_or_default();
            vec![value::text(entry, "path"), value::text(entry, "kind"), size, value::text(entry, "modifiedAt")]
        };
        let rows: Vec<_> = entries.iter().map(row).collect();
        output.full_table(&["PATH", "KIND", "SIZE", "MODIFIED"], &rows)?;
    }
    Ok(Exit::Success)
}

async fn get(output: Output, client: &Client, args: &GetArgs) -> Result<Exit, Failure> {
    let path = segments(&args.path)?;
    let answer = client.download(&path, &[("owner", args.owner.as_deref())]).await?;
    // Of a directory there is a list.
    if answer.headers().get("content-type").is_some_and(|kind| kind == "application/json") {
        return Err(Failure::usage(format!("{} is a directory; `skillvisor files ls` lists it", args.path)));
    }
    let length = answer.content_length().unwrap_or_default();
    let bar = output.bar(length).with_message("downloading");
    let to_stdout = args.to.as_deref() == Some(Path::new("-"));
    let name = path.last().copied().unwrap_or_default();
    let target = args.to.clone().unwrap_or_else(|| PathBuf::from(name));
    let broke = |error: &dyn std::fmt::Display| Failure::unreachable(format!("the download broke: {error}"));
    let mut file = if to_stdout { None } else { Some(Partial::create(&target).await?) };
    let mut bytes = answer.bytes_stream();
    while let Some(chunk) = bytes.next().await {
        let chunk = chunk.map_err(|error| broke(&error))?;
        bar.inc(chunk.len() as u64);
        match &mut file {
            Some(file) => file.write(&chunk).await?,
            None => output.raw(&chunk)?,
        }
    }
    bar.finish_and_clear();
    let Some(file) = file else { return Ok(Exit::Success) };
    file.finish().await?;
    if output.json {
        output.json(&json!({ "path": args.path, "file": target, "size": length }))?;
    } else {
        output.note(&format!("{} ({})", target.display(), table::bytes(length)));
    }
    Ok(Exit::Success)
}

async fn put(output: Output, client: &Client, args: &PutArgs) -> Result<Exit, Failure> {
    let name = args.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let path = match args.path.as_deref() {
        None => name,
        Some(path) if path.ends_with('/') => format!("{path}{name}"),
        Some(path) => path.to_owned(),
    };
    let path = segments(&path)?;
    let unreadable = |error: &std::io::Error| Failure::unreadable(&args.file, error);
    let file = tokio::fs::File::open(&args.file).await.map_err(|error| unreadable(&error))?;
    let metadata = file.metadata().await.map_err(|error| unreadable(&error))?;
    if !metadata.is_file() {
        return Err(Failure::usage(format!("{} is not a file", args.file.display())));
    }
    let length = metadata.len();
    let bar = output.bar(length).with_message("uploading");
    let moving = bar.clone();
    let bytes = ReaderStream::with_capacity(file, CHUNK).inspect(move |chunk| {
        moving.inc(chunk.as_ref().map_or(0, |chunk| chunk.len() as u64));
    });
    let upload = Upload {
        method: Method::PUT,
        path: &path,
        query: &[("owner", args.owner.as_deref())],
        content_type: "application/octet-stream",
        length,
    };
    let reply = client.upload(upload, bytes).await;
    bar.finish_and_clear();
    let reply = reply?;
    if output.json {
        output.json_text(&reply.text)?;
    } else {
        let entry = reply.json()?;
        output.note(&format!("{} ({})", table::clean(&value::text(&entry, "path")), table::bytes(length)));
    }
    Ok(Exit::Success)
}

async fn rm(output: Output, client: &Client, args: &RmArgs) -> Result<Exit, Failure> {
    let recursive = args.recursive.then_some("true");
    client.remove(&segments(&args.path)?, &[("owner", args.owner.as_deref()), ("recursive", recursive)]).await?;
    if output.json {
        output.json(&json!({ "removed": args.path }))?;
    } else {
        output.note(&format!("removed {}", args.path));
    }
    Ok(Exit::Success)
}

/// The path in the API. What leads up would be lost on the way there, and another file meant.
fn segments(path: &str) -> Result<Vec<&str>, Failure> {
    let names = path.strip_prefix("/workspace/").unwrap_or(path).split('/');
    let names: Vec<_> = names.filter(|name| !matches!(*name, "" | ".")).collect();
    if names.contains(&"..") || path.starts_with('/') && !path.starts_with("/workspace/") {
        return Err(Failure::usage(format!("{path:?} leads out of the workspace"))
            .hint("paths are those below it, such as reports/2026.csv"));
    }
    Ok(["api", "workspace"].into_iter().chain(names).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leads_out_is_refused_here_and_not_made_another() {
        assert_eq!(segments("a//./b").unwrap(), ["api", "workspace", "a", "b"]);
        assert_eq!(segments("/workspace/a").unwrap(), ["api", "workspace", "a"]);
        assert_eq!(segments("").unwrap(), ["api", "workspace"]);
        for path in ["..", "a/../b", "/etc/passwd"] {
            assert_eq!(segments(path).unwrap_err().exit, Exit::Usage, "{path}");
        }
    }
}
