//! Printing the WIT of components: on demand, in processes of their own as compiling is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::sync::Semaphore;
use wit_component::{DecodedWasm, OutputToString, WitPrinter};

use crate::model::{Code, Digest, Error, steers};

use super::CompileSettings;
use super::protocol::Message;
use super::worker::spawn;

/// What stands in the place of the engine's name in a worker's arguments when it is to print.
pub(super) const WIT: &str = "wit";
/// Longest text, in bytes.
const MAX_TEXT: usize = 1 << 20;
/// Most time of one worker.
const TIME: Duration = Duration::from_secs(10);
/// How long a caller waits for a turn.
const PATIENCE: Duration = Duration::from_secs(20);
/// Most bytes that a worker may say.
const MAX_REPORT: u64 = 64 << 10;

/// Prints the WIT of one component at a time, and keeps it.
pub(super) struct Printer {
    settings: CompileSettings,
    cache: PathBuf,
    temporary: PathBuf,
    turn: Semaphore,
}

impl Printer {
    /// Keeps what it prints in `cache`; `temporary` is on the same file system.
    pub(super) fn new(settings: CompileSettings, cache: PathBuf, temporary: PathBuf) -> Self {
        let timeout = TIME.min(settings.timeout);
        Self { settings: CompileSettings { timeout, ..settings }, cache, temporary, turn: Semaphore::new(1) }
    }

    /// The WIT of the component in `file`.
    ///
    /// # Errors
    ///
    /// `not_supported` for a component whose WIT cannot be printed; `overloaded` if others wait.
    pub(super) async fn print(&self, digest: Digest, file: &Path) -> Result<String, Error> {
        let kept = self.cache.join(digest.hex()).with_extension("wit");
        if let Some(text) = read(&kept).await {
            return text.ok_or_else(unprintable);
        }
        let turn = tokio::time::timeout(PATIENCE, self.turn.acquire()).await;
        let _turn = turn
            .map_err(|_| Error::new(Code::Overloaded, "other components are being printed; try again").retry_after(5))?
            .map_err(Error::internal)?;
        if let Some(text) = read(&kept).await {
            return text.ok_or_else(unprintable);
        }
        let output = self.temporary.join(format!("{}.wit", uuid::Uuid::now_v7()));
        let printed = self.work(digest, (file, &output)).await;
        let text = match &printed {
            Ok(true) => tokio::fs::read_to_string(&output).await.map_err(Error::internal)?,
            // Nothing is kept of it but that it was tried.
            Ok(false) => String::new(),
            Err(_) => return printed.map(|_| String::new()),
        };
        let _ = tokio::fs::remove_file(&output).await;
        let keep = text.clone();
        let kept = tokio::task::spawn_blocking(move || crate::files::write_durably(&kept, keep.as_bytes()));
        kept.await.map_err(Error::internal)?.map_err(Error::internal)?;
        if text.is_empty() { Err(unprintable()) } else { Ok(text) }
    }

    /// Whether a worker could print the component.
    async fn work(&self, digest: Digest, files: (&Path, &Path)) -> Result<bool, Error> {
        let mut child = spawn(&self.settings, files, (&digest.hex(), WIT))?;
        let mut said = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            let mut stdout = stdout.take(MAX_REPORT);
            let reading = stdout.read_to_end(&mut said);
            if tokio::time::timeout(self.settings.timeout, reading).await.is_err() {
                let _ = child.kill().await;
                return Ok(false);
            }
        }
        let ended = child.wait().await.map_err(Error::internal)?;
        match serde_json::from_slice(&said) {
            Ok(Message::Compiled) => Ok(true),
            Ok(Message::Unfit { detail }) => Err(Error::new(Code::Unavailable, detail)),
            _ => {
                tracing::info!(component.digest = %digest, %ended, "The WIT of a component could not be printed");
                Ok(false)
            }
        }
    }
}

/// What was printed before: a text, or that there is none.
async fn read(kept: &Path) -> Option<Option<String>> {
    let text = tokio::fs::read_to_string(kept).await.ok()?;
    Some((!text.is_empty()).then_some(text))
}

fn unprintable() -> Error {
    Error::new(Code::NotSupported, "the WIT of this component cannot be printed: it is too large, or too unusual")
}

/// The WIT of a component as text. Runs inside the worker.
///
/// # Errors
///
/// Why there is none.
pub(super) fn wit(bytes: &[u8]) -> Result<String, String> {
    if !wasmparser::Parser::is_component(bytes) {
        return Err("it is no component".into());
    }
    let decoded = wit_component::decode(bytes).map_err(|error| format!("{error:#}"))?;
    let main = decoded.package();
    if matches!(decoded, DecodedWasm::WitPackage(..)) {
        return Err("it is a package of WIT and no component".into());
    }
    let resolve = decoded.resolve();
    let nested: Vec<_> = resolve.packages.iter().map(|(id, _)| id).filter(|id| *id != main).collect();
    let mut printer = WitPrinter::new(OutputToString::default());
    printer.print(resolve, main, &nested).map_err(|error| format!("{error:#}"))?;
    let text = printer.output.to_string();
    if text.len() > MAX_TEXT {
        return Err("it is too long".into());
    }
    // Comments are whatever their author wrote.
    Ok(text.chars().filter(|c| !steers(*c) || *c == '\n').collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_of_a_component_are_printed_and_a_module_has_none() {
        let component = wat::parse_str(
            r#"(component (core module $m (func (export "f") (param i32) (result i32) local.get 0))
               (core instance $i (instantiate $m))
               (func (export "twice") (param "n" s32) (result s32) (canon lift (core func $i "f"))))"#,
        );
        let text = wit(&component.unwrap()).unwrap();
        assert!(text.contains("export twice: func(n: s32) -> s32;"), "{text}");
        assert!(wit(&wat::parse_str("(module)").unwrap()).is_err());
    }
}
