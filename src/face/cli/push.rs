//! `skillvisor push`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use reqwest::Method;
use serde_json::Value;
use tokio::time::sleep;

use crate::model::{Code, OciReference};

use super::artefact::RegistryArgs;
use super::client::{Client, Reply, Upload};
use super::exit::{Exit, Failure};
use super::folder::Folder;
use super::multipart::Pieces;
use super::output::Output;
use super::place::line_of;
use super::{sample, table, value};

/// Bytes that are sent, and shown as sent, at one time.
const CHUNK: usize = 64 << 10;
/// How a zip with something in it begins.
const ZIP: &[u8] = b"PK\x03\x04";
/// How long to wait before looking again whether a skill is compiled: first, and at most.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Upload a skill: a component, or a skill folder, also zipped
///
/// A .wasm file alone needs a name and a version, unless the component carries them. A
/// folder has a SKILL.md, whose block opened by ```json skill is the manifest, and one
/// .wasm file beside it; a .zip holds such a folder. A version never changes: pushing the same
/// again is fine, pushing something else under it is a conflict.
///
/// With --oci the component goes into a registry instead, as an artefact that wkg reads too. This
/// machine speaks to it itself, through no server and no proxy.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor push skills/hello
  skillvisor push hello.zip
  skillvisor push hello.wasm --name hello --version 0.1.0
  skillvisor push hello.wasm --oci ghcr.io/acme/hello:0.1.0 --username ada --password-stdin < token.txt")]
pub(super) struct PushArgs {
    /// A .wasm file, a skill folder, or a zip of one
    #[arg(value_name = "FILE|DIR")]
    pub(super) path: PathBuf,
    /// Name, instead of the manifest's
    #[arg(long)]
    name: Option<String>,
    /// Version, instead of the manifest's
    #[arg(long)]
    version: Option<String>,
    /// Description, instead of the manifest's
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Owner, if it is not the key's own (admin keys only)
    #[arg(long)]
    owner: Option<String>,
    /// Manifest (JSON) of a .wasm file
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Put the component into a registry instead, and into no server
    #[arg(long, value_name = "REGISTRY/REPO:TAG", conflicts_with_all = ["name", "version", "description", "owner", "manifest"])]
    pub(super) oci: Option<OciReference>,
    #[command(flatten)]
    pub(super) registry: RegistryArgs,
}

pub(super) async fn run(output: Output, client: &Client, args: &PushArgs) -> Result<Exit, Failure> {
    args.registry.require_none()?;
    let Parts { manifest, pieces } = read(args)?;
    let size = pieces.length();
    let reply = upload(output, client, args, pieces).await;
    let reply = reply.map_err(|failure| located(failure, args, manifest.as_ref()))?;
    let was_there = reply.status == 200;
    let (text, skill) = ready(output, client, reply).await?;
    if output.json {
        output.json_text(&text)?;
    } else if value::text(&skill, "state") == "ready" {
        let verb = if was_there { "unchanged" } else { "pushed" };
        output.line(&told(verb, &table::bytes(size), &skill))?;
    }
    check_state(&skill)
}

/// A manifest as it is in its file.
struct Source {
    file: PathBuf,
    text: String,
    /// All of the file, if that is a `SKILL.md`.
    skill_md: Option<String>,
}

impl Source {
    fn read(file: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(file).map_err(|error| Failure::unreadable(file, &error))?;
        Ok(Self { file: file.to_owned(), text, skill_md: None })
    }
}

/// What is to be sent.
struct Parts {
    manifest: Option<Source>,
    pieces: Pieces,
}

/// Reads what is to be sent.
fn read(args: &PushArgs) -> Result<Parts, Failure> {
    let (manifest, component) = if args.path.is_dir() {
        if args.manifest.is_some() {
            return Err(Failure::usage("--manifest goes with a .wasm file; a folder's manifest is in its SKILL.md"));
        }
        let folder = Folder::read(&args.path)?;
        let source = Source { file: folder.skill_md, text: folder.manifest, skill_md: Some(folder.text) };
        (Some(source), folder.component)
    } else {
        (args.manifest.as_deref().map(Source::read).transpose()?, args.path.clone())
    };
    let content = Bytes::from(fs::read(&component).map_err(|error| Failure::unreadable(&component, &error))?);
    if content.starts_with(ZIP) && component == args.path {
        return match manifest {
            None => Ok(Parts { manifest, pieces: Pieces::archive(content) }),
            Some(_) => Err(Failure::usage("--manifest goes with a .wasm file; a zip's manifest is in its SKILL.md")),
        };
    }
    if !content.starts_with(b"\0asm") {
        return Err(Failure::usage(format!("{} is not WebAssembly", args.path.display()))
            .hint("push takes a compiled component (.wasm), a skill folder, or a zip of one"));
    }
    let pieces = match &manifest {
        Some(Source { skill_md: Some(text), .. }) => Pieces::form(("skillMd", "text/markdown"), text, content),
        Some(manifest) => Pieces::form(("manifest", "application/json"), &manifest.text, content),
        None => Pieces::component(content),
    };
    Ok(Parts { manifest, pieces })
}

/// The same failure, with the lines of the manifest's file that it is about.
fn located(failure: Failure, args: &PushArgs, manifest: Option<&Source>) -> Failure {
    let Some(Source { file, text, .. }) = manifest else { return failure };
    if failure.code == Code::Malformed.as_str() && failure.detail.contains(" at line ") {
        return failure.hint(format!("the line is one of {}", file.display()));
    }
    let given = [
        ("/name", &args.name),
        ("/version", &args.version),
        ("/description", &args.description),
        ("/owner", &args.owner),
    ];
    failure.places(|pointer| {
        // What a flag says instead stands in no line.
        let by_flag = given.iter().any(|(name, value)| *name == pointer && value.is_some());
        let line = line_of(text, pointer).filter(|_| !by_flag)?;
        Some(format!("line {line} of {}", file.display()))
    })
}

/// Sends it, with a bar on a terminal.
async fn upload(output: Output, client: &Client, args: &PushArgs, pieces: Pieces) -> Result<Reply, Failure> {
    let length = pieces.length();
    let bar = output.bar(length).with_message("uploading");
    let moving = bar.clone();
    let chunks = pieces.pieces.into_iter().flat_map(|mut piece| {
        std::iter::from_fn(move || (!piece.is_empty()).then(|| piece.split_to(piece.len().min(CHUNK))))
    });
    let chunks = chunks.map(move |chunk| {
        moving.inc(chunk.len() as u64);
        Ok(chunk)
    });
    let query = [
        ("name", args.name.as_deref()),
        ("version", args.version.as_deref()),
        ("description", args.description.as_deref()),
        ("owner", args.owner.as_deref()),
    ];
    let upload = Upload {
        method: Method::POST,
        path: &["api", "skills"],
        query: &query,
        content_type: &pieces.content_type,
        length,
    };
    let reply = client.upload(upload, stream::iter(chunks)).await;
    bar.finish_and_clear();
    reply.map_err(|failure| {
        let unnamed = failure.fields.iter().any(|field| matches!(field.pointer.as_str(), "/name" | "/version"));
        if failure.code == "invalid_manifest" && unnamed {
            return failure.hint("give --name and --version, or push a folder whose SKILL.md has a manifest");
        }
        failure
    })
}

/// Waits until the skill is compiled, and gives the last answer as text and value.
pub(super) async fn ready(output: Output, client: &Client, reply: Reply) -> Result<(String, Value), Failure> {
    let mut skill = reply.json()?;
    let Some(location) = reply.location.filter(|_| value::text(&skill, "state") == "compiling") else {
        return Ok((reply.text, skill));
    };
    let doing = format!("compiling {}", value::address(&skill));
    if !output.has_terminal() {
        output.note(&format!("{doing}; that may take a minute, once"));
    }
    let spinner = output.spinner(doing);
    let mut wait = FIRST_WAIT;
    loop {
        sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
        let reply = client.follow(&location).await?;
        skill = reply.json()?;
        if value::text(&skill, "state") != "compiling" {
            spinner.finish_and_clear();
            return Ok((reply.text, skill));
        }
    }
}

/// A skill that was uploaded but cannot run is no success.
pub(super) fn check_state(skill: &Value) -> Result<Exit, Failure> {
    let code = match value::text(skill, "state").as_str() {
        "failed" => Code::SkillFailed,
        "unavailable" => Code::Unavailable,
        _ => return Ok(Exit::Success),
    };
    let detail = format!("{} cannot run: {}", value::address(skill), value::text(skill, "problem"));
    Err(Failure::new(Exit::of(code), code.as_str(), table::clean(&detail)))
}

/// What became of the upload, and what to do with it.
pub(super) fn told(verb: &str, how: &str, skill: &Value) -> String {
    let address = value::address(skill);
    let functions: Vec<String> =
        value::list(skill, "functions").iter().map(|function| value::text(function, "name")).collect();
    let mut lines = vec![
        format!("{verb} {address} ({}, {})", value::standing(skill), how),
        value::facts(&[
            ("owner", value::text(skill, "owner")),
            ("id", value::text(skill, "id")),
            ("digest", value::text(skill, "digest")),
            ("functions", functions.join(", ")),
        ]),
    ];
    lines
        .extend(value::texts(skill, "warnings").iter().map(|warning| format!("warning: {}", table::one_line(warning))));
    if value::text(skill, "approval") == "pending" {
        lines.push(format!("it waits for approval: skillvisor diff {address}, then skillvisor approve {address}"));
    }
    lines.push(format!("run it: {}", sample::run_command(skill)));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn args(path: PathBuf, manifest: Option<PathBuf>) -> PushArgs {
        let registry = RegistryArgs::default();
        PushArgs { path, name: None, version: None, description: None, owner: None, manifest, oci: None, registry }
    }

    #[test]
    fn a_file_goes_raw_and_with_a_manifest_as_a_form() {
        let dir = tempfile::tempdir().unwrap();
        let wasm = dir.path().join("a.wasm");
        let manifest = dir.path().join("m.json");
        fs::write(&wasm, b"\0asm").unwrap();
        fs::write(&manifest, b"{}").unwrap();
        assert_eq!(read(&args(wasm.clone(), None)).unwrap().pieces.content_type, "application/wasm");
        let form = read(&args(wasm, Some(manifest))).unwrap().pieces;
        assert!(form.content_type.starts_with("multipart/form-data"));
        let zip = dir.path().join("a.zip");
        fs::write(&zip, b"PK\x03\x04").unwrap();
        assert_eq!(read(&args(zip.clone(), None)).unwrap().pieces.content_type, "application/zip");
        assert_eq!(read(&args(zip, Some(dir.path().join("m.json")))).err().unwrap().exit, Exit::Usage);
    }

    #[test]
    fn what_is_not_webassembly_is_not_sent() {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("a.wasm");
        fs::write(&text, b"(component)").unwrap();
        assert_eq!(read(&args(text, None)).err().unwrap().exit, Exit::Usage);
        assert_eq!(read(&args(dir.path().join("none"), None)).err().unwrap().exit, Exit::Usage);
    }

    #[test]
    fn a_skill_that_cannot_run_is_no_success() {
        let skill = json!({ "name": "a", "version": "1.0.0", "state": "failed", "problem": "out of memory" });
        let failure = check_state(&skill).unwrap_err();
        assert_eq!((failure.exit, failure.detail.as_str()), (Exit::Conflict, "a@1.0.0 cannot run: out of memory"));
        assert_eq!(check_state(&json!({ "state": "ready" })).unwrap(), Exit::Success);
    }
}
