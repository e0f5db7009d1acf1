//! `skillvisor audit`.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use serde_json::json;

use crate::model::Clock;
use crate::store::{AuditPublicKey, AuditReport, verify_audit};

use super::client::Client;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::partial::Partial;
use super::time::{Direction, point};
use super::{table, value};

/// Export the audit, and check an export
#[derive(clap::Subcommand)]
pub(super) enum AuditCommand {
    Export(ExportArgs),
    Verify(VerifyArgs),
    PublicKey(PublicKeyArgs),
}

/// Export the audit as lines of JSON; needs an admin key
///
/// Each record has its hash over the one before, and what it commits to; checkpoints and the end are signed.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor audit export -o audit-2026-12.jsonl
  skillvisor audit export --since 30d | gzip > audit.jsonl.gz")]
pub(super) struct ExportArgs {
    /// From the last checkpoint before this time on: a duration such as 30d, or a time
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// File to write; stdout if none is given
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Check an export, without a server and without a data directory
///
/// Names the first record that was changed, left out, put in or moved, and finds an end or a start that was cut
/// off. Exit code 0: it is whole; 6: it is not.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor audit verify audit.jsonl --public-key audit.pem
  skillvisor audit verify audit.jsonl --public-key audit.pem --known 5120:0a1b…  (the `head` of an earlier export)")]
pub(super) struct VerifyArgs {
    /// The export
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The public key, as `audit public-key` prints it; several where the host's key changed
    #[arg(long, value_name = "FILE", required = true)]
    public_key: Vec<PathBuf>,
    /// A record that must be in it: the end of an earlier export, as NUMBER:HASH
    #[arg(long, value_name = "NUMBER:HASH")]
    known: Option<String>,
}

/// Print the public key that exports are checked with
///
/// Keep it where nobody who can write the host's data directory can change it.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor audit public-key > audit.pem")]
pub(super) struct PublicKeyArgs {}

pub(super) async fn run(output: Output, client: &Client, command: AuditCommand) -> Result<Exit, Failure> {
    match command {
        AuditCommand::Export(args) => export(output, client, &args).await,
        AuditCommand::Verify(args) => verify(output, &args),
        AuditCommand::PublicKey(_) => public_key(output, client).await,
    }
}

async fn export(output: Output, client: &Client, args: &ExportArgs) -> Result<Exit, Failure> {
    let now = Clock::System.now_ms();
    let since = args.since.as_deref().map(|text| point(text, Direction::Ago, now)).transpose()?;
    let answer = client.download(&["api", "audit"], &[("since", since.as_deref())]).await?;
    let mut part = match &args.output {
        Some(file) => Some(Partial::create(file).await?),
        None => None,
    };
    let (mut lines, mut size) = (answer.bytes_stream(), 0);
    while let Some(chunk) = lines.next().await {
        let chunk = chunk.map_err(|error| Failure::unreachable(format!("the export broke off: {error}")))?;
        size += chunk.len() as u64;
        match &mut part {
            Some(part) => part.write(&chunk).await?,
            None => output.raw(&chunk)?,
        }
    }
    let Some(part) = part else { return Ok(Exit::Success) };
    part.finish().await?;
    if output.json {
        output.json(&json!({ "file": args.output, "size": size }))?;
    } else {
        output.note(&format!("exported {}", table::bytes(size)));
    }
    Ok(Exit::Success)
}

async fn public_key(output: Output, client: &Client) -> Result<Exit, Failure> {
    let reply = client.get(&["api", "audit", "public-key"], &[]).await?;
    if output.json {
        output.json(&json!({ "publicKey": reply.text }))?;
    } else {
        output.line(reply.text.trim_end())?;
    }
    Ok(Exit::Success)
}

/// Checks an export.
pub(super) fn verify(output: Output, args: &VerifyArgs) -> Result<Exit, Failure> {
    let keys = args.public_key.iter().map(|path| read_key(path)).collect::<Result<Vec<_>, _>>()?;
    let known = args.known.as_deref().map(known).transpose()?;
    let file = std::fs::File::open(&args.file).map_err(|error| Failure::unreadable(&args.file, &error))?;
    let report = verify_audit(BufReader::new(file), &keys, known);
    let report = report.map_err(|error| Failure::unreadable(&args.file, &error))?;
    if output.json {
        output.json(&serde_json::to_value(&report).unwrap_or_default())?;
    } else {
        output.line(&told(&report))?;
    }
    Ok(if report.broken.is_none() { Exit::Success } else { Exit::Invalid })
}

fn read_key(path: &Path) -> Result<AuditPublicKey, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::unreadable(path, &error))?;
    AuditPublicKey::parse(&text).map_err(|why| Failure::usage(format!("--public-key {}: {why}", path.display())))
}

fn known(text: &str) -> Result<(i64, &str), Failure> {
    let known = text.split_once(':').and_then(|(seq, hash)| Some((seq.parse().ok()?, hash)));
    known.filter(|(_, hash)| hash.len() == 64).ok_or_else(|| Failure::usage("--known must be NUMBER:HASH"))
}

fn told(report: &AuditReport) -> String {
    let verdict = match &report.broken {
        None => "whole".to_owned(),
        Some(broken) => {
            let record = broken.seq.map_or_else(String::new, |seq| format!(", record {seq}"));
            format!("BROKEN in line {}{record}: {}", broken.line, broken.why)
        }
    };
    let number = |number: Option<i64>| number.map_or_else(String::new, |number| number.to_string());
    table::clean(&value::facts(&[
        ("verdict", verdict),
        ("records", format!("{} ({} executions, {} acts)", report.records, report.executions, report.admin)),
        ("erased", report.erased.to_string()),
        ("checkpoints", report.checkpoints.to_string()),
        ("first", number(report.first)),
        (
            "head",
            report
                .last
                .map_or_else(String::new, |last| format!("{last}:{}", report.head.as_deref().unwrap_or_default())),
        ),
        ("signed", report.signed_at.clone().unwrap_or_default()),
    ]))
}
