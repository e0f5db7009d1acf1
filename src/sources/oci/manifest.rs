//! Manifests and indexes, as far as they lead to a component.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::model::{Code, Digest, Error};

use crate::sources::refused::at;

/// What manifests are called, in the order in which we want them.
pub(super) const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";
/// What the layer with the component is called: by `wkg` and `oras`, and by tools before them.
const WASM: [&str; 4] = [
    super::artefact::LAYER,
    "application/vnd.wasm.content.layer.v1+wasm",
    "application/vnd.module.wasm.content.layer.v1+wasm",
    "application/vnd.bytecodealliance.wasm.component.layer.v0+wasm",
];
/// What `oras` calls a file of which nothing else is said; it is not packed.
const FILE: [&str; 2] = ["application/vnd.oci.image.layer.v1.tar", "application/octet-stream"];
/// The annotation with the name of a file.
const TITLE: &str = "org.opencontainers.image.title";

/// A manifest or an index.
#[derive(Debug, Deserialize)]
pub(super) struct Manifest {
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
    platform: Option<Platform>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct Platform {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
}

/// A layer to fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) digest: Digest,
    pub(super) size: u64,
}

impl Descriptor {
    fn digest(&self) -> Result<Digest, Error> {
        self.digest.parse().map_err(|_| invalid("the manifest has a digest that is not sha256"))
    }

    fn is_wasm_platform(&self) -> bool {
        self.platform.as_ref().is_some_and(|it| it.architecture == "wasm" || it.os.starts_with("wasi"))
    }

    /// Whether it is of a type that says that something else is in it.
    fn is_packed(&self) -> bool {
        ["tar", "gzip", "zstd"].iter().any(|word| {
            let mut words = self.media_type.split(['.', '+', '/', '-']);
            words.any(|part| part.eq_ignore_ascii_case(word))
        })
    }

    fn is_file(&self) -> bool {
        let named = self.annotations.get(TITLE).is_some_and(|title| title.ends_with(".wasm"));
        named && FILE.contains(&self.media_type.as_str())
    }
}

impl Manifest {
    /// Reads one.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let manifest: Self = serde_json::from_slice(bytes)
            .map_err(|_| invalid("what the registry has is no manifest that we know (schema version 2)"))?;
        // Two readers of one that is both must not see two things.
        if manifest.layers.is_some() == manifest.manifests.is_some() {
            return Err(invalid("the manifest has not either `layers` or `manifests`"));
        }
        Ok(manifest)
    }

    /// Whether it leads to manifests.
    pub(super) fn is_index(&self) -> bool {
        self.manifests.is_some()
    }

    /// What an index has for us; nothing if this is none.
    pub(super) fn platform(&self) -> Result<Option<Digest>, Error> {
        let Some(all) = &self.manifests else { return Ok(None) };
        let wasm: Vec<_> = all.iter().filter(|one| one.is_wasm_platform()).collect();
        match (all.as_slice(), wasm.as_slice()) {
            (_, [one]) => one.digest().map(Some),
            ([one], []) => one.digest().map(Some),
            (_, []) => Err(invalid("the index has nothing for the architecture wasm")),
            _ => Err(invalid("the index has more than one artefact for wasm; name one with @sha256:…")),
        }
    }

    /// The layer with the component.
    pub(super) fn component(&self) -> Result<Layer, Error> {
        let layers = self.layers.as_deref().unwrap_or_default();
        let typed: Vec<_> = layers.iter().filter(|layer| WASM.contains(&layer.media_type.as_str())).collect();
        let found = if typed.is_empty() { layers.iter().filter(|layer| layer.is_file()).collect() } else { typed };
        match found.as_slice() {
            [layer] => Ok(Layer { digest: layer.digest()?, size: layer.size }),
            [] if layers.iter().any(Descriptor::is_packed) => Err(invalid(
                "the layers of the artefact are packed (tar, gzip or zstd), which are not opened; put the component into a \
                 layer of its own of the type application/wasm, as `skillvisor push FILE --oci` does",
            )),
            [] => Err(invalid(
                "the artefact has no layer of the type application/wasm; `skillvisor push FILE --oci` makes one",
            )),
            _ => Err(invalid("the artefact has more than one component")),
        }
    }

    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(name).map(String::as_str)
    }
}

fn invalid(why: &str) -> Error {
    at(Code::InvalidComponent, why)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn digest(letter: char) -> String {
        format!("sha256:{}", letter.to_string().repeat(64))
    }

    fn layer(kind: &str, letter: char, title: &str) -> Value {
        json!({ "mediaType": kind, "digest": digest(letter), "size": 8, "annotations": { TITLE: title } })
    }

    fn chosen(layers: &[Value]) -> Result<String, Code> {
        let text = json!({ "schemaVersion": 2, "layers": layers }).to_string();
        let found = Manifest::parse(text.as_bytes()).and_then(|manifest| manifest.component());
        found.map(|layer| layer.digest.to_string()).map_err(|error| error.code)
    }

    #[test]
    fn the_component_is_the_one_layer_that_says_so() {
        let tar = FILE[0];
        assert_eq!(chosen(&[layer("application/wasm", 'a', "")]), Ok(digest('a')));
        assert_eq!(chosen(&[layer(tar, 'b', "readme.wasm"), layer(WASM[1], 'a', "")]), Ok(digest('a')));
        assert_eq!(chosen(&[layer(tar, 'a', "x.wasm"), layer("text/markdown", 'b', "y.wasm")]), Ok(digest('a')));
        for bad in [
            vec![],
            vec![layer(tar, 'a', "x.txt")],
            vec![layer(&format!("{tar}+gzip"), 'a', "x.wasm")],
            vec![layer("application/wasm", 'a', ""), layer("application/wasm", 'b', "")],
            vec![json!({ "mediaType": "application/wasm", "digest": "sha512:00", "size": 1 })],
        ] {
            assert_eq!(chosen(&bad), Err(Code::InvalidComponent), "{bad:?}");
        }
    }

    #[test]
    fn layers_that_are_packed_are_told_to_be_that() {
        let packed =
            ["application/vnd.docker.image.rootfs.diff.tar.gzip", "application/vnd.oci.image.layer.v1.tar+zstd"];
        for (kind, told) in packed.map(|kind| (kind, true)).into_iter().chain([("text/markdown", false)]) {
            let text = json!({ "schemaVersion": 2, "layers": [layer(kind, 'a', "")] }).to_string();
            let error = Manifest::parse(text.as_bytes()).unwrap().component().unwrap_err();
            assert_eq!(error.detail.contains("are packed"), told, "{kind}: {}", error.detail);
        }
    }

    #[test]
    fn an_index_has_one_for_wasm_or_is_refused() {
        let entry = |letter, architecture: &str, os: &str| {
            json!({ "mediaType": "x", "digest": digest(letter), "size": 1,
                    "platform": { "architecture": architecture, "os": os } })
        };
        let chosen = |entries: &[Value]| {
            let text = json!({ "schemaVersion": 2, "manifests": entries }).to_string();
            let found = Manifest::parse(text.as_bytes()).and_then(|manifest| manifest.platform());
            found.map(|digest| digest.map(|digest| digest.to_string())).map_err(|error| error.code)
        };
        assert_eq!(chosen(&[entry('a', "amd64", "linux"), entry('b', "wasm", "wasip2")]), Ok(Some(digest('b'))));
        assert_eq!(chosen(&[entry('a', "amd64", "linux")]), Ok(Some(digest('a'))));
        let two = [entry('a', "wasm", "wasip2"), entry('b', "wasm", "wasip1")];
        assert_eq!(chosen(&two), Err(Code::InvalidComponent));
        assert_eq!(chosen(&[entry('a', "amd64", "linux"), entry('b', "arm64", "linux")]), Err(Code::InvalidComponent));
        for both in [json!({ "layers": [], "manifests": [] }), json!({}), json!([]), json!({ "fsLayers": [] })] {
            assert!(Manifest::parse(both.to_string().as_bytes()).is_err(), "{both}");
        }
    }
}
