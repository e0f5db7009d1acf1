//! The one table of settings, and the typed values that come from it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use crate::model::{ApprovalPolicy, ContainerPolicy, Disabled, EngineChoice, ImageRef, SourceRule};

use super::kinds::{
    Address, Approvals, Bytes, Count, Engines, Kind, Lifetime, LogFilter, LogFormat, Mebibytes, Millis, Optional, Path,
    Runtime, Span, Switch,
};
use super::lists::{BaseUrl, CatalogueNames, Hosts, Images, Networks, Origins, SourceRules};
use super::sources::{Given, Source};
use super::{ConfigError, Explained};

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name in the file; a dot is a table.
    pub name: &'static str,
    /// Its value when nobody gives one, as one would write it. Empty where it depends on the user.
    pub default: &'static str,
    /// The word for its value.
    pub word: &'static str,
    /// What is allowed, to follow "must be".
    pub allowed: &'static str,
    /// What it does.
    pub help: &'static str,
}

impl Setting {
    /// Its variable: `SKILLVISOR_UPLOAD_MAX_BYTES`.
    pub fn variable(&self) -> String {
        format!("{}{}", super::environment::PREFIX, self.name.replace('.', "_").to_ascii_uppercase())
    }

    /// Its flag, without the two dashes in front: `upload-max-bytes`.
    pub fn flag(&self) -> String {
        self.name.replace(['.', '_'], "-")
    }

    /// Whether it is on or off, so that the flag alone says "on".
    pub fn is_switch(&self) -> bool {
        self.word == Switch::WORD
    }
}

/// Declares the settings and their rows, so that neither can exist without the other.
macro_rules! settings {
    ($($field:ident: $value:ty as $kind:ty, $name:literal = $default:literal, $help:literal;)*) => {
        /// Every setting, in the order of the documentation.
        pub const SETTINGS: &[Setting] = &[$(Setting {
            name: $name, default: $default, word: <$kind as Kind>::WORD, allowed: <$kind as Kind>::ALLOWED, help: $help,
        },)*];

        /// The settings as they are used.
        #[derive(Clone, Debug)]
        pub struct Settings {
            $(#[doc = $help] pub $field: $value,)*
            /// What each one was read from.
            pub(super) given: BTreeMap<&'static str, Given>,
        }

        impl Settings {
            /// Reads what was given; `given` has one entry for each setting.
            ///
            /// # Errors
            ///
            /// Every value that cannot be read.
            pub(super) fn read(given: BTreeMap<&'static str, Given>) -> Result<Self, ConfigError> {
                let mut problems = Vec::new();
                $(let $field = read_one::<$kind>($name, &given, &mut problems);)*
                match ($($field,)*) {
                    ($(Some($field),)*) => Ok(Self { $($field,)* given }),
                    _ => Err(ConfigError { problems }),
                }
            }
        }
    };
}

settings! {
    listen: SocketAddr as Address, "listen" = "127.0.0.1:20128",
        "Address and port of the HTTP API. Port 0 takes a free one.";
    data_dir: PathBuf as Path, "data_dir" = "",
        "Directory of everything that is kept. Default: $XDG_DATA_HOME/skillvisor, else ~/.local/share/skillvisor; under systemd the StateDirectory of the unit.";
    behind_proxy: bool as Switch, "behind_proxy" = "false",
        "Listen on any address without TLS, because a proxy in front of the server speaks it.";
    tls_cert: Option<PathBuf> as Optional<Path>, "tls.cert" = "none",
        "Certificate chain (PEM) of the HTTP API, the server's own certificate first. Only together with tls.key. SIGHUP reads both again.";
    tls_key: Option<PathBuf> as Optional<Path>, "tls.key" = "none",
        "Private key (PEM) of the HTTP API. Only together with tls.cert.";
    http_allowed_hosts: Vec<String> as Hosts, "http.allowed_hosts" = "none",
        "Names that clients of /mcp may call this server by, besides localhost and addresses. Behind a proxy, the name that clients give to the proxy.";
    http_allowed_origins: Vec<String> as Origins, "http.allowed_origins" = "none",
        "Sites whose web pages may talk to /mcp, besides this server's own.";
    metrics_listen: Option<SocketAddr> as Optional<Address>, "metrics.listen" = "none",
        "Address and port of a listener of its own for /metrics, which asks for no key and so must be a loopback address, unless behind_proxy says otherwise. Without it, /metrics is there for admin keys.";
    approval: ApprovalPolicy as Approvals, "approval" = "none",
        "Whether a version whose grants, functions, descriptions or schemas are more than those of the one before waits until a key with skills:approve accepts it: none or required.";
    catalogue_disabled: Disabled as CatalogueNames, "catalogue.disabled" = "none",
        "Skills that come with the host and are left out, by name; all leaves out all that are built in.";
    catalogue_dir: Option<PathBuf> as Optional<Path>, "catalogue.dir" = "none",
        "Directory of skill folders (SKILL.md and a component, in a folder of the skill's name) that are there for every key, as the built-in ones are. A folder takes the place of the built-in skill of its name, for good or to stay with one version.";
    upload_max_bytes: u64 as Bytes, "upload.max_bytes" = "64MiB",
        "Largest upload.";
    concurrency_host: usize as Count, "concurrency.host" = "256",
        "Executions that run at one time.";
    concurrency_per_owner: usize as Count, "concurrency.per_owner" = "128",
        "Executions of one owner that run at one time.";
    queue_host: usize as Count, "queue.host" = "4096",
        "Executions that may wait for a free place; more are answered with 503.";
    queue_per_owner: usize as Count, "queue.per_owner" = "1024",
        "Executions of one owner that may wait for a free place; more are answered with 429.";
    compile_workers: usize as Count, "compile.workers" = "2",
        "Components that are compiled at one time, each in a process of its own; one more for an owner who has none at work.";
    compile_memory_mb: u64 as Mebibytes, "compile.memory_mb" = "2048",
        "Most memory of one compilation, in MiB.";
    compile_timeout: Duration as Millis, "compile.timeout_ms" = "120000",
        "Most processor time of one compilation, in milliseconds; by the clock it may take five times as long.";
    reuse_max_calls: usize as Count, "reuse.max_calls" = "1000",
        "Most calls of one instance of a skill that keeps its instances (`reuse`).";
    reuse_max_idle: usize as Count, "reuse.max_idle" = "32",
        "Most such instances that are kept between calls.";
    containers_engine: EngineChoice as Engines, "containers.engine" = "auto",
        "What runs container skills: podman, docker, auto for the first of them that answers, or none.";
    containers_allowed_images: Vec<ImageRef> as Images, "containers.allowed_images" = "alpine:3.20,node:22-alpine,python:3.12-alpine",
        "Images that container skills may name, exactly as here; with @sha256:… an image is always the same.";
    containers_runtime: Option<String> as Optional<Runtime>, "containers.runtime" = "none",
        "Runtime that the engine starts containers with, such as runsc; without it, the engine's own default.";
    egress_allow_cidrs: Vec<IpNet> as Networks, "egress.allow_cidrs" = "none",
        "Networks that skills may reach, and be installed from, although they are not of the public internet, where grants and ceilings allow it.";
    egress_ca_file: Option<PathBuf> as Optional<Path>, "egress.ca_file" = "none",
        "Authorities (PEM) that skills' requests, and requests for skills, trust beside the system's.";
    install_allowed_sources: Vec<SourceRule> as SourceRules, "install.allowed_sources" = "none",
        "Sources that every key with skills:write may install from, whatever its network ceiling: URLs, oci://registry/repository or owner/repo, each of which may end in *. What one leads to (a redirect, a registry's place for tokens) needs an entry of its own unless it is the registry itself.";
    install_git_base_url: String as BaseUrl, "install.git_base_url" = "https://github.com",
        "Git host of sources written as owner/repo: it gives OWNER/REPO/archive/REF.zip below this URL.";
    install_timeout: Duration as Millis, "install.timeout_ms" = "120000",
        "How long fetching a skill may take, in milliseconds.";
    registry_insecure_hosts: Vec<String> as Hosts, "registry.insecure_hosts" = "none",
        "Hosts, with their port if it is not 80, that skills are fetched from without TLS.";
    workspace_max_bytes: u64 as Bytes, "workspace.max_bytes" = "1GiB",
        "Bytes of an owner's files, where the ceilings of its keys (storage.fileBytes) say nothing else.";
    workspace_max_files: usize as Count, "workspace.max_files" = "10000",
        "Files and directories of an owner, where the ceilings of its keys (storage.files) say nothing else.";
    secrets_key_file: Option<PathBuf> as Optional<Path>, "secrets.key_file" = "none",
        "File with the key that stored secrets are sealed with (64 hexadecimal digits, for this user alone to read). The first secret makes it. Default: secrets.key in the data directory. Keep it out of backups of the data.";
    webhooks_max_attempts: usize as Count, "webhooks.max_attempts" = "8",
        "How often a webhook that no run waits for is told of an execution before that becomes a dead letter: after 2 seconds, and then after four times as long each time, at most four hours.";
    retention_results: Duration as Lifetime, "retention.results" = "24h",
        "How long the full result of an execution is kept after its end; then only a short copy is.";
    retention_audit: Option<Duration> as Optional<Lifetime>, "retention.audit" = "none",
        "How long the audit is kept; none keeps it for ever. What goes ends at a signed checkpoint, which stays.";
    shutdown_drain: Duration as Span, "shutdown.drain" = "10s",
        "How long running executions may go on after the signal to stop.";
    log_format: LogFormat as LogFormat, "log.format" = "auto",
        "Log lines on stderr as json or text; auto is text on a terminal and json elsewhere.";
    log_level: String as LogFilter, "log.level" = "info",
        "What is logged: a level, or levels by module (info,skillvisor::executor=debug).";
}

/// Reads one setting, or notes what is wrong with it.
fn read_one<K: Kind>(
    name: &'static str,
    given: &BTreeMap<&'static str, Given>,
    problems: &mut Vec<String>,
) -> Option<K::Value> {
    let given = given.get(name)?;
    let value = K::read(given);
    if value.is_none() {
        let or_none = if K::read(&Given::by_default("none")).is_some() { ", or none" } else { "" };
        problems.push(format!("{name} = {:?} ({}): must be {}{or_none}", given.text, given.source, K::ALLOWED));
    }
    value
}

impl Settings {
    /// What is said about containers.
    pub fn containers(&self) -> ContainerPolicy {
        ContainerPolicy {
            engine: self.containers_engine,
            allowed_images: self.containers_allowed_images.clone(),
            runtime: self.containers_runtime.clone(),
        }
    }

    /// Each setting with its value and where that came from.
    pub fn explain(&self) -> Vec<Explained> {
        let explain = |setting: &Setting| {
            let given = self.given.get(setting.name)?;
            Some(Explained {
                name: setting.name,
                value: given.text.clone(),
                source: given.source.to_string(),
                given: given.source != Source::Default,
            })
        };
        SETTINGS.iter().filter_map(explain).collect()
    }

    /// Whether somebody gave the setting a value.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.get(name).is_some_and(|given| given.source != Source::Default)
    }

    /// Where a setting came from.
    pub(crate) fn source(&self, name: &str) -> String {
        self.given.get(name).map_or_else(String::new, |given| given.source.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_variables_and_flags_are_spelt_alike() {
        let setting = SETTINGS.iter().find(|setting| setting.name == "concurrency.per_owner").unwrap();
        assert_eq!(setting.variable(), "SKILLVISOR_CONCURRENCY_PER_OWNER");
        assert_eq!(setting.flag(), "concurrency-per-owner");
    }

    #[test]
    fn no_two_settings_share_a_variable_or_a_flag() {
        let variables: std::collections::BTreeSet<_> = SETTINGS.iter().map(Setting::variable).collect();
        let flags: std::collections::BTreeSet<_> = SETTINGS.iter().map(Setting::flag).collect();
        assert_eq!((variables.len(), flags.len()), (SETTINGS.len(), SETTINGS.len()));
    }
}
