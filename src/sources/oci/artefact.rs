//! A component as `wkg` packs it: the artefact of the CNCF's guidance for WebAssembly.

use serde_json::{Value, json};
use wasmparser::{Encoding, Parser, Payload};

use crate::model::{Code, Digest, Error};

/// Manifest, configuration and layer.
pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const CONFIG: &str = "application/vnd.wasm.config.v0+json";
pub(super) const LAYER: &str = "application/wasm";

/// What is pushed beside the component itself.
pub(super) struct Artefact {
    pub(super) config: Vec<u8>,
    pub(super) manifest: Vec<u8>,
}

impl Artefact {
    /// Packs a component that was made at `created` (RFC 3339).
    ///
    /// # Errors
    ///
    /// `invalid_component` if it is none.
    pub(super) fn of(component: &[u8], created: &str) -> Result<Self, Error> {
        let digest = Digest::of(component);
        let Ports { is_component, imports, exports } = Ports::of(component)?;
        let mut config = json!({
            "created": created, "architecture": "wasm", "os": if is_component { "wasip2" } else { "wasip1" },
            "layerDigests": [digest],
        });
        if is_component {
            config["component"] = json!({ "exports": exports, "imports": imports, "target": Value::Null });
        }
        let config = config.to_string().into_bytes();
        let descriptor =
            |kind: &str, bytes: &[u8]| json!({ "mediaType": kind, "digest": Digest::of(bytes), "size": bytes.len() });
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": descriptor(CONFIG, &config),
            "layers": [descriptor(LAYER, component)],
            "annotations": { "org.opencontainers.image.created": created },
        });
        Ok(Self { config, manifest: manifest.to_string().into_bytes() })
    }
}

/// What a component imports and exports, by name.
#[derive(Default)]
struct Ports {
    is_component: bool,
    imports: Vec<String>,
    exports: Vec<String>,
}

impl Ports {
    fn of(component: &[u8]) -> Result<Self, Error> {
        let invalid = |error| Error::new(Code::InvalidComponent, format!("the file is not WebAssembly: {error}"));
        let (mut ports, mut depth) = (Self::default(), 0);
        for payload in Parser::new(0).parse_all(component) {
            match payload.map_err(invalid)? {
                Payload::Version { encoding, .. } => {
                    depth += 1;
                    ports.is_component |= depth == 1 && encoding == Encoding::Component;
                }
                Payload::End(_) => depth -= 1,
                Payload::ComponentImportSection(imports) if depth == 1 => {
                    for import in imports {
                        ports.imports.push(import.map_err(invalid)?.name.name.to_owned());
                    }
                }
                Payload::ComponentExportSection(exports) if depth == 1 => {
                    for export in exports {
                        ports.exports.push(export.map_err(invalid)?.name.name.to_owned());
                    }
                }
                _ => {}
            }
        }
        Ok(ports)
    }
}
