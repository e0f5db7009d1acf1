//! A manifest that stands in a `SKILL.md`.

use crate::model::{Code, Error, MAX_SKILL_MD_BYTES, NO_MANIFEST_BLOCK, manifest_block};

use super::Manifest;

impl Manifest {
    /// Reads the manifest in a `SKILL.md`, and keeps all of the text.
    ///
    /// The front matter on top is for readers of Agent Skills, and nothing of it counts here.
    ///
    /// # Errors
    ///
    /// `too_large` for more than 512 KiB; `invalid_manifest` if there is not one manifest in it; and as
    /// [`Manifest::parse`].
    pub fn of_skill_md(text: String) -> Result<Self, Error> {
        if text.len() > MAX_SKILL_MD_BYTES {
            return Err(Error::new(Code::TooLarge, format!("the SKILL.md has more than {MAX_SKILL_MD_BYTES} bytes")));
        }
        let block = manifest_block(&text).and_then(|block| block.ok_or(NO_MANIFEST_BLOCK));
        let block = block.map_err(|why| Error::new(Code::InvalidManifest, format!("the SKILL.md {why}")))?;
        Ok(Self { skill_md: Some(text), ..Self::parse(&block)? })
    }
}
