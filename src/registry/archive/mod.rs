//! A zipped skill folder: the manifest and the component in it.
//!
//! Nothing is ever written under a name of the archive. What it says of itself is checked before any
//! of it is expanded (`list`), and what is expanded is compared with that (`content`). No more of it is
//! in memory than its list, one chunk and its `SKILL.md`.

mod again;
mod content;
mod list;
mod names;
#[cfg(test)]
mod pack;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::path::PathBuf;

use bytes::Bytes;
use futures_util::{Stream, stream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::model::{Code, Error, MAX_SKILL_MD_BYTES, plain};

use super::Manifest;

use self::content::expand;
use self::list::{Entry, entries};
use self::names::Layout;

/// Most bytes of a reason.
const MAX_REASON: usize = 500;

/// Which of its files are the skill's.
enum Which {
    /// All of them.
    Whole,
    /// Those of the folder of this name; of the only one if there is no name.
    Part(Option<String>),
}

type Chunks = mpsc::Sender<io::Result<Bytes>>;

/// Reads the archive in `file`, of which one file may have `most` bytes: gives the manifest in its
/// `SKILL.md`, and the component, chunk by chunk. The component ends once all of the archive was
/// found sound. What was taken of it means nothing unless there is a manifest too.
///
/// # Errors
///
/// `malformed` for what is no sound zip; `too_large`; `invalid_manifest` where there is not one
/// `SKILL.md` with a manifest; `invalid_component` where there is not one component beside it;
/// `not_supported` for a folder with neither, and for a handler of a kind that this version does not run.
pub fn unzip(
    file: PathBuf,
    most: u64,
) -> (JoinHandle<Result<Manifest, Error>>, impl Stream<Item = io::Result<Bytes>> + Send) {
    unzip_some(file, most, Which::Whole)
}

/// The same of a folder that is named `skill`, somewhere in the archive of a repository; of its only
/// folder with a `SKILL.md` if nothing is said.
pub fn unzip_part(
    file: PathBuf,
    most: u64,
    skill: Option<String>,
) -> (JoinHandle<Result<Manifest, Error>>, impl Stream<Item = io::Result<Bytes>> + Send) {
    unzip_some(file, most, Which::Part(skill))
}

fn unzip_some(
    file: PathBuf,
    most: u64,
    which: Which,
) -> (JoinHandle<Result<Manifest, Error>>, impl Stream<Item = io::Result<Bytes>> + Send) {
    let (chunks, component) = mpsc::channel(2);
    let manifest = tokio::task::spawn_blocking(move || {
        let file = File::open(file).map_err(Error::internal)?;
        read(&file, most, &which, &chunks)
    });
    let component = stream::unfold(component, async |mut chunks| Some((chunks.recv().await?, chunks)));
    (manifest, component)
}

fn read(file: &File, most: u64, which: &Which, chunks: &Chunks) -> Result<Manifest, Error> {
    let entries = entries(file, most)?;
    let layout = match which {
        Which::Whole => Layout::of(&entries)?,
        Which::Part(skill) => Layout::within(&entries, skill.as_deref())?,
    };
    let text = text_of(file, layout.skill_md)?;
    let (manifest, component) = pair(text, layout.component()?)?;
    if component.size > most {
        return Err(too_large(format!("its component has more than {most} bytes (setting upload.max_bytes)")));
    }
    expand(file, component, |chunk| chunks.blocking_send(Ok(chunk.into())).is_ok())?;
    let others = entries.iter().filter(|entry| !std::ptr::eq(*entry, layout.skill_md));
    for entry in others.filter(|entry| !std::ptr::eq(*entry, component)) {
        expand(file, entry, |_| !chunks.is_closed())?;
    }
    Ok(manifest)
}

/// The manifest together with its component, if the folder has both.
fn pair(text: String, component: Option<&Entry>) -> Result<(Manifest, &Entry), Error> {
    let manifest = Manifest::of_skill_md(text);
    match (manifest, component) {
        (Ok(manifest), Some(component)) => {
            manifest.component()?;
            Ok((manifest, component))
        }
        (Ok(manifest), None) => {
            manifest.component()?;
            Err(Error::new(
                Code::InvalidComponent,
                "there is no .wasm file beside the SKILL.md; put the component there",
            ))
        }
        (Err(error), None) if error.detail.ends_with(crate::model::NO_MANIFEST_BLOCK) => {
            let detail = "a SKILL.md without code, which is the handler `instructions`, is not run by this version; \
                          put a component beside it and a manifest into it";
            Err(Error::at(Code::NotSupported, "/handler", detail))
        }
        (Err(error), _) => Err(error),
    }
}

fn text_of(file: &File, entry: &Entry) -> Result<String, Error> {
    if entry.size > MAX_SKILL_MD_BYTES as u64 {
        return Err(too_large(format!("its SKILL.md has more than {MAX_SKILL_MD_BYTES} bytes")));
    }
    let mut text = Vec::new();
    expand(file, entry, |chunk| {
        text.extend_from_slice(&chunk);
        true
    })?;
    String::from_utf8(text).map_err(|_| Error::new(Code::InvalidManifest, "the SKILL.md is not UTF-8"))
}

fn malformed(why: impl AsRef<str>) -> Error {
    Error::new(Code::Malformed, format!("this is no sound zip of a skill folder: {}", plain(why.as_ref(), MAX_REASON)))
}

fn too_large(why: impl AsRef<str>) -> Error {
    Error::new(Code::TooLarge, format!("the skill folder is too large: {}", plain(why.as_ref(), MAX_REASON)))
}
