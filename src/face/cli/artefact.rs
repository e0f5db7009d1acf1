//! `push --oci` and `pull --oci`: between this machine and a registry, with no server between. It
//! is the user's own network, so nothing of it is closed.

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::egress::{EgressSettings, Fetcher, Guard};
use crate::model::{Clock, Digest, NetworkRule, OciReference, OwnerId};
use crate::sources::oci;
use crate::sources::{Opened, errand};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::folder::Folder;
use super::login::LoginArgs;
use super::partial::Partial;
use super::table;

/// How long one transfer may take.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// Largest component that is taken from a registry, in bytes.
const MOST: u64 = 1 << 30;

#[derive(clap::Args, Debug, Default)]
pub(super) struct RegistryArgs {
    #[command(flatten)]
    pub(super) login: LoginArgs,
    /// Speak to the registry without TLS
    #[arg(long, requires = "oci")]
    plain_http: bool,
}

impl RegistryArgs {
    /// Refuses what has no meaning where no registry is named.
    pub(super) fn require_none(&self) -> Result<(), Failure> {
        match &self.login.username {
            Some(_) => Err(Failure::usage("--username goes with --oci; a server knows you by your key")),
            None => Ok(()),
        }
    }

    fn fetcher(&self, context: &Context, reference: &OciReference) -> Result<Fetcher, Failure> {
        let everywhere = ["0.0.0.0/0", "::/0"].map(str::parse);
        let allow_cidrs = everywhere.into_iter().collect::<Result<_, _>>();
        let allow_cidrs = allow_cidrs.map_err(|_| Failure::internal("a network cannot be read"))?;
        let guard = Guard::new(EgressSettings { allow_cidrs, ca_file: context.ca_file() })?;
        let fetcher = Fetcher::new(guard, vec![NetworkRule::public()], errand(OwnerId::system(), PATIENCE));
        let clear = [oci::host(&reference.registry).to_owned()];
        Ok(if self.plain_http { fetcher.without_tls_to(&clear) } else { fetcher })
    }
}

/// Puts a component where `reference` says.
pub(super) async fn push(
    context: &Context,
    path: &Path,
    reference: &OciReference,
    args: &RegistryArgs,
) -> Result<Exit, Failure> {
    let file = if path.is_dir() { Folder::read(path)?.component } else { path.to_owned() };
    let unreadable = |error: std::io::Error| Failure::unreadable(&file, &error);
    let component = Bytes::from(fs::read(&file).map_err(unreadable)?);
    // The same file makes the same artefact, whenever it is pushed.
    let made = fs::metadata(&file).and_then(|metadata| metadata.modified()).map_err(unreadable)?;
    let made = made.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0));
    let (size, created) = (component.len() as u64, Clock::rfc3339(made * 1000));
    let login = args.login.login().await?;
    let spinner = context.output.spinner(format!("pushing to {reference}"));
    let pushed = oci::push(args.fetcher(context, reference)?, reference, login, (component, &created)).await;
    spinner.finish_and_clear();
    let manifest = pushed.map_err(told)?;
    if context.output.json {
        context
            .output
            .json(&json!({ "reference": reference.to_string(), "manifestDigest": manifest, "size": size }))?;
    } else {
        context.output.line(&format!("pushed {reference} ({})\n  manifest  {manifest}", table::bytes(size)))?;
    }
    Ok(Exit::Success)
}

/// Takes a component from a registry into a file.
pub(super) async fn pull(
    context: &Context,
    reference: &OciReference,
    file: &Path,
    args: &RegistryArgs,
) -> Result<Exit, Failure> {
    let login = args.login.login().await?;
    let opened = oci::open(args.fetcher(context, reference)?, reference, login, MOST).await;
    let Opened { manifest_digest, digest: expected, mut body, .. } = opened.map_err(told)?;
    let spinner = context.output.spinner(format!("pulling {reference}"));
    let (mut part, mut hash, mut size) = (Partial::create(file).await?, Sha256::new(), 0);
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(told)?;
        hash.update(&chunk);
        size += chunk.len() as u64;
        part.write(&chunk).await?;
    }
    spinner.finish_and_clear();
    let digest = Digest::from_bytes(hash.finalize().into());
    if let Some(expected) = expected.filter(|expected| *expected != digest) {
        let detail = format!("the component should have the digest {expected}, and what came has {digest}");
        return Err(Failure::new(Exit::Conflict, "digest_mismatch", detail));
    }
    part.finish().await?;
    if context.output.json {
        context.output.json(&json!({ "reference": reference.to_string(), "manifestDigest": manifest_digest,
            "digest": digest, "file": file, "size": size }))?;
    } else {
        context.output.line(&format!("pulled {} ({})\n  digest  {digest}", file.display(), table::bytes(size)))?;
    }
    Ok(Exit::Success)
}

/// The failure without the place in a body that nobody wrote.
fn told(error: crate::model::Error) -> Failure {
    let mut failure = Failure::from(error);
    failure.fields.clear();
    failure
}
