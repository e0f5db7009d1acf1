//! `skillvisor pull`.

use std::path::PathBuf;

use futures_util::StreamExt;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::model::{Digest, OciReference};

use super::artefact::{self, RegistryArgs};
use super::client::Client;
use super::context::Context;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::partial::Partial;
use super::table;

/// Download the component of a skill, or one from a registry
///
/// With --oci the reference is one of a registry, which this machine speaks to itself, through
/// no server and no proxy. What comes is checked against its digest before the file is there.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor pull hello@^1 -o hello.wasm
  skillvisor pull --oci ghcr.io/acme/hello:1.0.0 -o hello.wasm")]
pub(super) struct PullArgs {
    /// A skill (id, name, name@version), or with --oci REGISTRY/REPO:TAG or REGISTRY/REPO@DIGEST
    #[arg(value_name = "REF")]
    pub(super) reference: String,
    /// File to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The reference is one of a registry
    #[arg(long)]
    pub(super) oci: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// From a registry.
pub(super) async fn run_oci(context: &Context, args: &PullArgs) -> Result<Exit, Failure> {
    let text = args.reference.strip_prefix("oci://").unwrap_or(&args.reference);
    let reference: OciReference = text.parse().map_err(|error: crate::model::Error| Failure::usage(error.detail))?;
    artefact::pull(context, &reference, &args.output, &args.registry).await
}

/// From the server.
pub(super) async fn run(output: Output, client: &Client, args: &PullArgs) -> Result<Exit, Failure> {
    args.registry.require_none()?;
    let answer = client.download(&["api", "skills", &args.reference, "component"], &[]).await?;
    let tag = answer.headers().get("etag").and_then(|tag| tag.to_str().ok()).unwrap_or_default().to_owned();
    let bar = output.bar(answer.content_length().unwrap_or_default()).with_message("downloading");
    let (mut part, mut hash, mut size) = (Partial::create(&args.output).await?, Sha256::new(), 0);
    let mut bytes = answer.bytes_stream();
    while let Some(chunk) = bytes.next().await {
        let chunk = chunk.map_err(|error| Failure::unreachable(format!("the download broke: {error}")))?;
        bar.inc(chunk.len() as u64);
        hash.update(&chunk);
        size += chunk.len() as u64;
        part.write(&chunk).await?;
    }
    bar.finish_and_clear();
    let digest = Digest::from_bytes(hash.finalize().into());
    if tag.trim_matches('"') != digest.to_string() {
        return Err(Failure::unreachable(format!("what came has the digest {digest}, and should have {tag}")));
    }
    part.finish().await?;
    if output.json {
        output.json(&json!({ "reference": args.reference, "digest": digest, "file": args.output, "size": size }))?;
    } else {
        output.line(&format!("pulled {} ({})\n  digest  {digest}", args.output.display(), table::bytes(size)))?;
    }
    Ok(Exit::Success)
}
