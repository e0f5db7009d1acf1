//! The kinds of values that settings have, and how each is read.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tracing_subscriber::EnvFilter;

use crate::model::{ApprovalPolicy, EngineChoice};

use super::sources::Given;

/// A kind of value.
pub(super) trait Kind {
    /// What it becomes.
    type Value;
    /// Its word in help texts.
    const WORD: &'static str;
    /// What is allowed, to follow "must be".
    const ALLOWED: &'static str;

    /// The value that `given` stands for.
    fn read(given: &Given) -> Option<Self::Value>;
}

/// An address and a port.
pub(super) enum Address {}

impl Kind for Address {
    type Value = SocketAddr;
    const WORD: &'static str = "ADDRESS:PORT";
    const ALLOWED: &'static str = "an IP address and a port, such as 127.0.0.1:20128 or [::1]:20128";

    fn read(given: &Given) -> Option<SocketAddr> {
        given.text.parse().ok()
    }
}

/// A file or directory. In a file, relative to that file; elsewhere, to the working directory.
pub(super) enum Path {}

impl Kind for Path {
    type Value = PathBuf;
    const WORD: &'static str = "PATH";
    const ALLOWED: &'static str = "a path, written out (`~` is not replaced)";

    fn read(given: &Given) -> Option<PathBuf> {
        let text = &given.text;
        let readable = !text.is_empty() && !text.starts_with('~') && !text.contains('\0');
        readable.then(|| std::path::absolute(given.base().join(text)).ok()).flatten()
    }
}

/// What another kind allows, or the word `none`.
pub(super) struct Optional<K>(std::marker::PhantomData<K>);

impl<K: Kind> Kind for Optional<K> {
    type Value = Option<K::Value>;
    const WORD: &'static str = K::WORD;
    const ALLOWED: &'static str = K::ALLOWED;

    fn read(given: &Given) -> Option<Option<K::Value>> {
        if given.text == "none" { Some(None) } else { K::read(given).map(Some) }
    }
}

/// A number of bytes.
pub(super) enum Bytes {}

impl Kind for Bytes {
    type Value = u64;
    const WORD: &'static str = "SIZE";
    const ALLOWED: &'static str = "a size above zero, in bytes or with a unit, such as 67108864 or 64MiB";

    fn read(given: &Given) -> Option<u64> {
        parse_bytes(&given.text).filter(|bytes| *bytes > 0)
    }
}

/// A number of mebibytes that something can work in.
pub(super) enum Mebibytes {}

impl Kind for Mebibytes {
    type Value = u64;
    const WORD: &'static str = "MIB";
    const ALLOWED: &'static str = "a whole number of MiB from 64 to 1048576";

    fn read(given: &Given) -> Option<u64> {
        given.text.parse().ok().filter(|mebibytes| (64..=1_048_576).contains(mebibytes))
    }
}

/// A number of things.
pub(super) enum Count {}

impl Kind for Count {
    type Value = usize;
    const WORD: &'static str = "NUMBER";
    const ALLOWED: &'static str = "a whole number from 1 to 1000000";

    fn read(given: &Given) -> Option<usize> {
        given.text.parse().ok().filter(|count| (1..=1_000_000).contains(count))
    }
}

/// A time in milliseconds.
pub(super) enum Millis {}

impl Kind for Millis {
    type Value = Duration;
    const WORD: &'static str = "MS";
    const ALLOWED: &'static str = "a whole number of milliseconds from 1 to 86400000";

    fn read(given: &Given) -> Option<Duration> {
        let ms = given.text.parse().ok().filter(|ms| (1..=86_400_000).contains(ms))?;
        Some(Duration::from_millis(ms))
    }
}

/// A time with a unit, maybe none at all.
pub(super) enum Span {}

impl Kind for Span {
    type Value = Duration;
    const WORD: &'static str = "DURATION";
    const ALLOWED: &'static str = "a time with a unit, such as 0s, 90s, 30m, 24h or 7d";

    fn read(given: &Given) -> Option<Duration> {
        parse_duration(&given.text)
    }
}

/// A time with a unit for which something is kept.
pub(super) enum Lifetime {}

impl Kind for Lifetime {
    type Value = Duration;
    const WORD: &'static str = "DURATION";
    const ALLOWED: &'static str = "a time of at least a second, with a unit, such as 90s, 30m, 24h or 7d";

    fn read(given: &Given) -> Option<Duration> {
        parse_duration(&given.text).filter(|time| *time >= Duration::from_secs(1))
    }
}

/// Yes or no.
pub(super) enum Switch {}

impl Kind for Switch {
    type Value = bool;
    const WORD: &'static str = "true|false";
    const ALLOWED: &'static str = "true or false";

    fn read(given: &Given) -> Option<bool> {
        given.text.parse().ok()
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// One JSON object a line.
    Json,
    /// Text for people.
    Text,
}

impl Kind for LogFormat {
    type Value = Self;
    const WORD: &'static str = "FORMAT";
    const ALLOWED: &'static str = "auto, json or text";

    fn read(given: &Given) -> Option<Self> {
        match given.text.as_str() {
            "auto" => Some(Self::Auto),
            "json" => Some(Self::Json),
            "text" => Some(Self::Text),
            _ => None,
        }
    }
}

/// Who is asked about what grows.
pub(super) enum Approvals {}

impl Kind for Approvals {
    type Value = ApprovalPolicy;
    const WORD: &'static str = "WHEN";
    const ALLOWED: &'static str = "none or required";

    fn read(given: &Given) -> Option<ApprovalPolicy> {
        match given.text.as_str() {
            "none" => Some(ApprovalPolicy::None),
            "required" => Some(ApprovalPolicy::Required),
            _ => None,
        }
    }
}

/// What runs containers.
pub(super) enum Engines {}

impl Kind for Engines {
    type Value = EngineChoice;
    const WORD: &'static str = "ENGINE";
    const ALLOWED: &'static str = "auto, podman, docker or none";

    fn read(given: &Given) -> Option<EngineChoice> {
        match given.text.as_str() {
            "auto" => Some(EngineChoice::Auto),
            "podman" => Some(EngineChoice::Podman),
            "docker" => Some(EngineChoice::Docker),
            "none" => Some(EngineChoice::None),
            _ => None,
        }
    }
}

/// The name of an engine's runtime, or the path of its program.
pub(super) enum Runtime {}

impl Kind for Runtime {
    type Value = String;
    const WORD: &'static str = "RUNTIME";
    const ALLOWED: &'static str = "the name of a runtime that the engine knows, such as runsc, or the path of one";

    fn read(given: &Given) -> Option<String> {
        let text = &given.text;
        let legal = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        (!text.is_empty() && !text.starts_with('-') && text.chars().all(legal)).then(|| text.clone())
    }
}

/// What is logged.
pub(super) enum LogFilter {}

impl Kind for LogFilter {
    type Value = String;
    const WORD: &'static str = "FILTER";
    const ALLOWED: &'static str =
        "off, error, warn, info, debug, trace, or a list such as info,skillvisor::executor=debug";

    fn read(given: &Given) -> Option<String> {
        const LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];
        // A bare word that is no level would be read as a module, so that `inof` logs nothing.
        let level = |part: &str| LEVELS.contains(&part.to_ascii_lowercase().as_str());
        let plain = |part: &str| part.contains(['=', '[']) || level(part);
        let text = given.text.trim();
        let valid = text.split(',').all(plain) && EnvFilter::try_new(text).is_ok();
        valid.then(|| text.to_owned())
    }
}

/// A size in bytes: a plain number, or one with the unit B, KB, MB, GB, TB, KiB, MiB, GiB or TiB.
pub fn parse_bytes(text: &str) -> Option<u64> {
    const UNITS: &[(&str, u64)] = &[
        ("", 1),
        ("b", 1),
        ("kb", 1000),
        ("mb", 1_000_000),
        ("gb", 1_000_000_000),
        ("tb", 1_000_000_000_000),
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
        ("tib", 1 << 40),
    ];
    let (number, unit) = split_number(text.trim())?;
    let unit = unit.trim_start().to_ascii_lowercase();
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor)
}

/// A time: one or more whole numbers, each with the unit ms, s, m, h, d or w (`90s`, `1h30m`).
pub fn parse_duration(text: &str) -> Option<Duration> {
    const UNITS: &[(&str, u64)] =
        &[("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];
    let mut rest = text.trim();
    let mut total_ms = 0_u64;
    loop {
        let (number, tail) = split_number(rest)?;
        let end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit.trim())?;
        total_ms = total_ms.checked_add(number.checked_mul(*factor)?)?;
        if tail.is_empty() {
            return Some(Duration::from_millis(total_ms));
        }
        rest = tail;
    }
}

/// The whole number that `text` starts with, and what follows it.
fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> Given {
        Given::by_default(text)
    }

    #[test]
    fn sizes_are_bytes_or_have_a_unit() {
        assert_eq!(parse_bytes("67108864"), Some(64 << 20));
        assert_eq!(parse_bytes("64MiB"), Some(64 << 20));
        assert_eq!(parse_bytes("64 mib"), Some(64 << 20));
        assert_eq!(parse_bytes("2GB"), Some(2_000_000_000));
        for bad in ["", "MiB", "-1", "1.5GiB", "64M", "64 MiB x", "99999999999TiB", "1e6"] {
            assert_eq!(parse_bytes(bad), None, "{bad}");
        }
        assert_eq!(Bytes::read(&given("0")), None);
    }

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(parse_duration("24h"), Some(Duration::from_secs(86_400)));
        assert_eq!(parse_duration("1h30m"), Some(Duration::from_secs(5400)));
        assert_eq!(parse_duration("1h 30m"), parse_duration("90m"));
        assert_eq!(parse_duration("90s"), parse_duration("1m30s"));
        assert_eq!(parse_duration("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(parse_duration("0s"), Some(Duration::ZERO));
        for bad in ["", "90", "h", "-1s", "1.5h", "1y", "1h30", "99999999999999w"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
        assert_eq!(Lifetime::read(&given("0s")), None);
    }

    #[test]
    fn a_misspelt_level_is_not_taken_for_a_module() {
        for good in ["info", "warn,skillvisor=debug", "off", "INFO", "info,a::b[span]=trace"] {
            assert!(LogFilter::read(&given(good)).is_some(), "{good}");
        }
        for bad in ["inof", "", "info,debgu", "skillvisor=loud"] {
            assert!(LogFilter::read(&given(bad)).is_none(), "{bad}");
        }
    }

    #[test]
    fn none_turns_an_optional_value_off() {
        assert_eq!(Optional::<Address>::read(&given("none")), Some(None));
        assert!(matches!(Optional::<Address>::read(&given("[::1]:9")), Some(Some(_))));
        assert_eq!(Optional::<Address>::read(&given("")), None);
        assert_eq!(Address::read(&given("none")), None);
    }

    #[test]
    fn a_path_is_written_out_and_becomes_absolute() {
        assert!(Path::read(&given("data")).unwrap().is_absolute());
        assert_eq!(Path::read(&given("~/data")), None);
        assert_eq!(Path::read(&given("")), None);
    }
}
