//! `skillvisor install`.

use std::fs;
use std::path::PathBuf;

use reqwest::Method;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::model::Source;

use super::client::Client;
use super::exit::{Exit, Failure};
use super::lock::{Lock, Locked};
use super::login::LoginArgs;
use super::output::Output;
use super::push::{check_state, ready, told};
use super::value;

/// Install a skill that the server fetches from elsewhere
///
/// The source is a file at https://…, a component or a zipped skill folder; an artefact in a
/// registry, REGISTRY/REPO:TAG or REGISTRY/REPO@DIGEST; or a skill folder of OWNER/REPO at a git host.
/// The network ceiling of the key must allow it, or the server's operator lists it
/// (install.allowed_sources). What the source has becomes the skill; name and version are those
/// given here, else the component's, else the source's.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor install ghcr.io/acme/hello:1.0.0
  skillvisor install https://skills.example/hello.wasm --name hello --version 1.0.0
  skillvisor install acme/skills --skill hello --ref v1.0.0
  skillvisor install ghcr.io/acme/hello:1.0.0 --lock skills.lock
  skillvisor install --lock skills.lock")]
pub(super) struct InstallArgs {
    /// A URL or a reference; with --lock alone, all that the file has
    #[arg(required_unless_present = "lock")]
    source: Option<String>,
    /// Folder of the skill in the repository, or in the zip
    #[arg(long, value_name = "FOLDER")]
    skill: Option<String>,
    /// Branch, tag or commit of the repository
    #[arg(long = "ref", value_name = "REF")]
    reference: Option<String>,
    /// Name, instead of what manifest, component or source say
    #[arg(long)]
    name: Option<String>,
    /// Version, likewise
    #[arg(long)]
    version: Option<String>,
    /// Description, likewise
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Owner, if it is not the key's own (admin keys only)
    #[arg(long)]
    owner: Option<String>,
    /// Digest that the component must have
    #[arg(long, value_name = "sha256:…")]
    digest: Option<String>,
    /// Manifest (JSON) of the skill
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    #[command(flatten)]
    login: LoginArgs,
    /// Write down what was installed; what the file has already must come the same again
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// Take what is there now, whatever the lock file says
    #[arg(long, requires = "lock", requires = "source")]
    update: bool,
}

pub(super) async fn run(output: Output, client: &Client, args: &InstallArgs) -> Result<Exit, Failure> {
    let login = args.login.read().await?;
    let mut lock = args.lock.as_deref().map(Lock::read).transpose()?;
    let Some(source) = &args.source else {
        let locked = lock.map(|lock| lock.skills).unwrap_or_default();
        return all(output, client, args, (locked, login.as_ref())).await;
    };
    let mut body = body(args, login.as_ref())?;
    body["source"] = source.as_str().into();
    // A lock file has it as the server writes it.
    let shown = source.parse::<Source>().map_or_else(|_| source.clone(), |source| source.to_string());
    let pinned = lock
        .as_ref()
        .filter(|_| !args.update)
        .and_then(|lock| lock.of_source(&shown, args.skill.as_deref(), args.reference.as_deref()));
    if let Some(digest) = args.digest.as_deref().or(pinned.map(|locked| locked.digest.as_str())) {
        body["digest"] = digest.into();
    }
    if let Some(digest) = pinned.and_then(|locked| locked.skill_md_digest.as_deref()) {
        body["skillMdDigest"] = digest.into();
    }
    let skill = one(output, client, &body).await?;
    if let (Some(lock), Some(file), Some(locked)) = (&mut lock, &args.lock, Locked::of(&skill)) {
        lock.put(locked);
        lock.write(file)?;
    }
    check_state(&skill)
}

/// Installs what a lock file has.
async fn all(
    output: Output,
    client: &Client,
    args: &InstallArgs,
    (skills, login): (Vec<Locked>, Option<&(String, Zeroizing<String>)>),
) -> Result<Exit, Failure> {
    if args.name.is_some() || args.version.is_some() || args.digest.is_some() {
        return Err(Failure::usage("name, version and digest are those of the lock file; give a source to change one"));
    }
    if skills.is_empty() {
        return Err(
            Failure::usage("the lock file has nothing in it").hint("skillvisor install SOURCE --lock FILE adds to it")
        );
    }
    for Locked { name, version, source, skill, reference, digest, skill_md_digest, .. } in skills {
        let mut body = body(args, login)?;
        let known = json!({ "name": name, "version": version, "source": source, "digest": digest });
        for (name, text) in [("skill", skill), ("ref", reference), ("skillMdDigest", skill_md_digest)] {
            if let Some(text) = text {
                body[name] = text.into();
            }
        }
        body.as_object_mut().into_iter().for_each(|body| body.extend(known.as_object().cloned().unwrap_or_default()));
        check_state(&one(output, client, &body).await?)?;
    }
    Ok(Exit::Success)
}

/// What is said of every skill.
fn body(args: &InstallArgs, login: Option<&(String, Zeroizing<String>)>) -> Result<Value, Failure> {
    let mut body = json!({});
    let given = [("name", &args.name), ("version", &args.version), ("description", &args.description)];
    for (name, text) in
        given.into_iter().chain([("owner", &args.owner), ("skill", &args.skill), ("ref", &args.reference)])
    {
        if let Some(text) = text {
            body[name] = text.as_str().into();
        }
    }
    if let Some(file) = &args.manifest {
        let text = fs::read_to_string(file).map_err(|error| Failure::unreadable(file, &error))?;
        let wrong = |error| Failure::usage(format!("{} is not JSON: {error}", file.display()));
        body["manifest"] = serde_json::from_str(&text).map_err(wrong)?;
    }
    if let Some((username, password)) = login {
        body["username"] = username.as_str().into();
        body["password"] = password.as_str().into();
    }
    Ok(body)
}

/// Installs one skill, and gives it once it is compiled.
async fn one(output: Output, client: &Client, body: &Value) -> Result<Value, Failure> {
    let source = value::text(body, "source");
    let spinner = output.spinner(format!("installing {source}"));
    let reply = client.send_json(Method::POST, &["api", "skills", "install"], body.to_string()).await;
    spinner.finish_and_clear();
    let reply = reply?;
    let verb = if reply.status == 200 { "unchanged" } else { "installed" };
    let (text, skill) = ready(output, client, reply).await?;
    if output.json {
        output.json_text(&text)?;
    } else if value::text(&skill, "state") == "ready" {
        output.line(&told(verb, &format!("from {source}"), &skill))?;
    }
    Ok(skill)
}
