//! Container skills: which image, what runs in it, and what an operator allows of that.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Code, Digest, Error};

/// Most arguments of a command.
const MAX_ARGUMENTS: usize = 256;
/// Most bytes of all arguments of a command.
const MAX_COMMAND: usize = 32 << 10;
/// Longest reference of an image, in bytes.
const MAX_IMAGE: usize = 512;

/// The name of an image: `[host[:port]/]path[:tag][@sha256:…]`, in its strict form.
///
/// It begins with a letter or a digit, so that no engine takes it for an option.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageRef(String);

impl ImageRef {
    /// The name as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it names the bytes and not only where they are.
    pub fn is_pinned(&self) -> bool {
        self.0.contains('@')
    }

    /// The whole name, with the registry that is meant where none is written, and the tag where there
    /// is neither tag nor digest: engines fill them in differently.
    pub fn whole(&self) -> String {
        let first = self.0.split_once('/').map(|(first, _)| first);
        let base = match first {
            Some(host) if host == "localhost" || host.contains(['.', ':']) => self.0.clone(),
            Some(_) => format!("docker.io/{}", self.0),
            None => format!("docker.io/library/{}", self.0),
        };
        let last = base.rsplit('/').next().unwrap_or_default();
        if last.contains([':', '@']) { base } else { format!("{base}:latest") }
    }
}

impl FromStr for ImageRef {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let problem = image_problem(text).map(|why| Error::new(Code::InvalidManifest, format!("the image {why}")));
        problem.map_or_else(|| Ok(Self(text.to_owned())), Err)
    }
}

impl TryFrom<String> for ImageRef {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<ImageRef> for String {
    fn from(image: ImageRef) -> Self {
        image.0
    }
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is wrong with the name of an image, if anything.
fn image_problem(text: &str) -> Option<&'static str> {
    if text.is_empty() || text.len() > MAX_IMAGE {
        return Some("has no name, or one of more than 512 bytes");
    }
    let (name, digest) = text.split_once('@').map_or((text, None), |(name, digest)| (name, Some(digest)));
    let is_hex = |hex: &str| hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if digest.is_some_and(|digest| digest.strip_prefix("sha256:").is_none_or(|hex| !is_hex(hex))) {
        return Some("has a digest that is not `sha256:` and 64 digits of 0-9 and a-f");
    }
    let (path, last) = name.rsplit_once('/').map_or(("", name), |(path, last)| (path, last));
    let (last, tag) = last.split_once(':').map_or((last, None), |(last, tag)| (last, Some(tag)));
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Some("has a tag that is not 1 to 128 letters, digits, `_`, `.` and `-`");
    }
    let mut parts = path.split('/').filter(|_| !path.is_empty()).peekable();
    let host = parts.next_if(|first| *first == "localhost" || first.contains(['.', ':']));
    if host.is_some_and(|host| !is_host(host)) {
        return Some("has a registry that is not `host` or `host:port`");
    }
    let wrong = "has a name with something else than a-z, 0-9 and single `.`, `_`, `-` or `/` between them";
    (!parts.chain([last]).all(is_component)).then_some(wrong)
}

fn is_tag(tag: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    (1..=128).contains(&tag.len()) && tag.bytes().all(legal) && !tag.starts_with(['.', '-'])
}

fn is_host(host: &str) -> bool {
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let part = |part: &str| {
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !part.is_empty() && part.bytes().all(legal) && !part.starts_with('-') && !part.ends_with('-')
    };
    name.split('.').all(part) && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

fn is_component(part: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends = |b: Option<u8>| b.is_some_and(inner);
    let bytes = part.as_bytes();
    let separated = !part.contains("..") && !part.contains("___") && !part.contains("._") && !part.contains("_.");
    ends(bytes.first().copied())
        && ends(bytes.last().copied())
        && separated
        && bytes.iter().all(|b| inner(*b) || b"._-".contains(b))
}

/// An image and what runs in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerProgram {
    /// The image, as its author wrote it.
    pub image: ImageRef,
    /// What runs in it; what the image says, if it is nothing.
    #[serde(default)]
    pub command: Vec<String>,
    /// The image that this meant when it was registered, by the SHA-256 of its configuration in
    /// hexadecimal digits: a tag may mean another one later. None where no engine could say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl ContainerProgram {
    /// Reads a handler: `docker://image command…`, or the JSON of an object with `image` and
    /// `command`. None for a handler of another kind.
    ///
    /// # Errors
    ///
    /// `invalid_manifest` with what is wrong. Nothing is ever guessed: no quotes, no shell.
    pub fn of_handler(text: &str) -> Result<Option<Self>, Error> {
        let wrong = |detail: String| Error::at(Code::InvalidManifest, "/handler", detail);
        let program = if let Some(words) = text.strip_prefix("docker://") {
            if words.contains(['\'', '"', '\\', '`']) || words.chars().any(|c| c.is_control()) {
                let detail = "quotes, backslashes and control characters mean nothing here, and no shell reads it; \
                              write {\"image\": …, \"command\": [\"…\", …]}";
                return Err(wrong(detail.to_owned()));
            }
            let mut words = words.split(' ').map(str::to_owned);
            let image = words.next().unwrap_or_default();
            let image = image.parse().map_err(|error: Error| wrong(error.detail))?;
            let command: Vec<String> = words.collect();
            if command.iter().any(String::is_empty) {
                return Err(wrong("there is more than one space between two words, or one at the end".to_owned()));
            }
            Self { image, command, id: None }
        } else if text.starts_with('{') {
            let program: Self = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
            Self { id: None, ..program }
        } else {
            return Ok(None);
        };
        program.require_sane()?;
        Ok(Some(program))
    }

    /// Refuses a command that no system takes.
    fn require_sane(&self) -> Result<(), Error> {
        let wrong = |detail: &str| Err(Error::at(Code::InvalidManifest, "/handler", detail));
        if self.command.iter().any(|argument| argument.contains('\0')) {
            return wrong("an argument of the command has a NUL in it");
        }
        if self.command.first().is_some_and(String::is_empty) {
            return wrong("the command begins with an empty text");
        }
        let bytes: usize = self.command.iter().map(String::len).sum();
        if self.command.len() > MAX_ARGUMENTS || bytes > MAX_COMMAND {
            return wrong("the command has more than 256 arguments or 32768 bytes; what changes goes in as arguments");
        }
        Ok(())
    }

    /// The same as text, which has one digest.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The SHA-256 of that.
    pub fn digest(&self) -> Digest {
        Digest::of(self.to_text().as_bytes())
    }

    /// As a handler is written.
    pub fn to_handler(&self) -> String {
        let plain = |word: &String| !word.is_empty() && !word.contains([' ', '\'', '"', '\\', '`']);
        if self.command.iter().all(|word| plain(word) && !word.chars().any(char::is_control)) {
            let words = std::iter::once(self.image.as_str()).chain(self.command.iter().map(String::as_str));
            return format!("docker://{}", words.collect::<Vec<_>>().join(" "));
        }
        Self { id: None, ..self.clone() }.to_text()
    }

    /// Whether the other means the same, as it is written.
    pub fn is_written_as(&self, other: &Self) -> bool {
        self.image == other.image && self.command == other.command
    }
}

/// Which engine runs containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// The first that answers: Podman, then Docker.
    #[default]
    Auto,
    /// Podman.
    Podman,
    /// Docker.
    Docker,
    /// None at all.
    None,
}

/// What an operator says about containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerPolicy {
    /// Which engine runs them.
    pub engine: EngineChoice,
    /// The images that skills may name, exactly as here.
    pub allowed_images: Vec<ImageRef>,
    /// The engine's runtime (`runsc`), if not its own default.
    pub runtime: Option<String>,
}

impl ContainerPolicy {
    /// The images that skills may name where the operator says nothing.
    pub const IMAGES: &'static str = "alpine:3.20,node:22-alpine,python:3.12-alpine";

    /// Refuses an image that is not on the list.
    ///
    /// # Errors
    ///
    /// `image_not_allowed`.
    pub fn require_allowed(&self, image: &ImageRef) -> Result<(), Error> {
        let whole = image.whole();
        if self.allowed_images.iter().any(|allowed| allowed.whole() == whole) {
            return Ok(());
        }
        let detail = format!("the image {image} is not on this host's list (setting containers.allowed_images)");
        Err(Error::at(Code::ImageNotAllowed, "/handler", detail))
    }
}

impl Default for ContainerPolicy {
    fn default() -> Self {
        let allowed_images = Self::IMAGES.split(',').filter_map(|image| image.parse().ok()).collect();
        Self { engine: EngineChoice::Auto, allowed_images, runtime: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(text: &str) -> Result<ContainerProgram, Error> {
        ContainerProgram::of_handler(text).map(Option::unwrap)
    }

    #[test]
    fn a_handler_is_an_image_and_words_and_comes_back_as_it_was() {
        let digest = "a".repeat(64);
        for text in [
            "docker://alpine:3.20 ls -l /workspace".to_owned(),
            "docker://localhost/x:1".to_owned(),
            format!("docker://ghcr.io:443/acme/a_b/c--d:T-1_x@sha256:{digest} run --privileged -v /:/host"),
            r#"{"image":"alpine:3.20","command":["sh","-c","echo \"a b\""]}"#.to_owned(),
        ] {
            let read = program(&text).unwrap();
            assert_eq!(read.to_handler(), text);
            assert_eq!(program(&read.to_handler()).unwrap().digest(), read.digest());
        }
        assert_eq!(ContainerProgram::of_handler("wasm").unwrap(), None);
        assert_eq!(program("docker://a b").unwrap().command, ["b"]);
    }

    #[test]
    fn what_is_not_plainly_an_image_and_words_is_refused_before_anything_is_started() {
        let digest = "A".repeat(64);
        let long = format!("docker://a {}", "x ".repeat(300));
        for bad in [
            "docker://",
            "docker:// ls",
            "docker://--privileged",
            "docker://-v",
            "docker://Alpine",
            "docker://a//b",
            "docker://a:",
            "docker://a:b:c",
            "docker://a:-x",
            "docker://a@sha256:12",
            "docker://a b  c",
            "docker://a b ",
            "docker://a sh -c 'rm'",
            "docker://a \"x\"",
            "docker://a b\nc",
            "docker://a\tb",
            "docker://a;b",
            "docker://a$(id)",
            "docker://x:y/z",
            "docker://x:0/z",
            "docker://../a",
            "docker://.a",
            "docker://a..b",
            "docker://é",
            "{\"image\":\"a\",\"command\":\"ls\"}",
            "{\"image\":\"-v\",\"command\":[]}",
            "{\"image\":\"a\",\"command\":[\"\\u0000\"]}",
            "{\"image\":\"a\",\"command\":[\"\"]}",
            "{\"command\":[]}",
            "{\"image\":\"a\",\"privileged\":true}",
            &format!("docker://a@sha256:{digest}"),
            &long,
        ] {
            let error = ContainerProgram::of_handler(bad).unwrap_err();
            let place = error.fields.first().map(|field| field.pointer.as_str());
            assert_eq!((error.code, place), (Code::InvalidManifest, Some("/handler")), "{bad}");
        }
    }

    #[test]
    fn an_image_is_allowed_under_each_way_to_write_its_name_and_no_other_is() {
        let policy = ContainerPolicy::default();
        let allowed = |image: &str| policy.require_allowed(&image.parse().unwrap()).is_ok();
        for good in ["alpine:3.20", "docker.io/library/alpine:3.20", "node:22-alpine"] {
            assert!(allowed(good), "{good}");
        }
        let digest = "a".repeat(64);
        for bad in ["alpine", "alpine:3.21", "evil/alpine:3.20", "evil.example/library/alpine:3.20"] {
            assert!(!allowed(bad), "{bad}");
        }
        assert!(!allowed(&format!("alpine:3.20@sha256:{digest}")), "a tag is not every image that claims it");
    }
}
