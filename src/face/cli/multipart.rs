//! A `multipart/form-data` body (RFC 7578) of a manifest and a component.

use bytes::Bytes;
use uuid::Uuid;

/// A body in pieces that are sent one after the other.
#[derive(Debug)]
pub(super) struct Pieces {
    /// What it is.
    pub(super) content_type: String,
    /// The pieces.
    pub(super) pieces: Vec<Bytes>,
}

impl Pieces {
    /// A component alone.
    pub(super) fn component(component: Bytes) -> Self {
        Self { content_type: "application/wasm".to_owned(), pieces: vec![component] }
    }

    /// A zipped skill folder.
    pub(super) fn archive(zip: Bytes) -> Self {
        Self { content_type: "application/zip".to_owned(), pieces: vec![zip] }
    }

    /// A component with a text of this name and kind: its manifest, or the `SKILL.md` that has it.
    pub(super) fn form((name, kind): (&str, &str), text: &str, component: Bytes) -> Self {
        let boundary = format!("skillvisor-{}", Uuid::now_v7().simple());
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\nContent-Type: {kind}\r\n\r\n\
             {text}\r\n--{boundary}\r\nContent-Disposition: form-data; name=\"component\"; \
             filename=\"component.wasm\"\r\nContent-Type: application/wasm\r\n\r\n"
        );
        let tail = format!("\r\n--{boundary}--\r\n");
        Self {
            content_type: format!("multipart/form-data; boundary={boundary}"),
            pieces: vec![head.into(), component, tail.into()],
        }
    }

    /// How many bytes it has.
    pub(super) fn length(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_two_parts() {
        let form = Pieces::form(("manifest", "application/json"), "{}", Bytes::from_static(b"\0asm"));
        let boundary = form.content_type.split_once("boundary=").unwrap().1.to_owned();
        let text = String::from_utf8(form.pieces.concat()).unwrap().replace(&boundary, "B").replace("\r\n", "\n");
        insta::assert_snapshot!(text.replace('\0', "0"), @r#"
        --B
        Content-Disposition: form-data; name="manifest"
        Content-Type: application/json

        {}
        --B
        Content-Disposition: form-data; name="component"; filename="component.wasm"
        Content-Type: application/wasm

        0asm
        --B--
        "#);
        assert_eq!(form.length(), form.pieces.concat().len() as u64);
    }
}
