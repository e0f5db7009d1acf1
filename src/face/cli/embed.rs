//! A host and its HTTP server inside this process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::catalogue::CatalogueSettings;
use crate::config::{ConfigError, Settings};
use crate::egress::{self, EgressSettings};
use crate::executor::{AdmissionSettings, Audit};
use crate::face::http::{HttpOptions, Pace, Server, Tls};
use crate::files;
use crate::host::{ADMIN_KEY_FILE, DirectoryProblem, Host, HostOptions, Queued, SERVER_FILE, directory_problem};
use crate::model::{Digest, Error, Secret};
use crate::sandbox::{CompileSettings, ReuseSettings, THIS_PROGRAM};
use crate::secrets::KeySource;
use crate::sources::SourceSettings;
use crate::workspace::Quota;

use super::exit::{Exit, Failure};

/// Where the holder of a data directory's lock is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Holder {
    /// Its process.
    pub(super) pid: u32,
    /// Its HTTP API.
    pub(super) url: String,
    /// Its certificate, where it speaks TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) certificate: Option<Digest>,
}

impl Holder {
    /// What the data directory says. It may be a server that is gone: only the lock tells.
    pub(super) fn of(data_dir: &Path) -> Option<Self> {
        let text = fs::read_to_string(data_dir.join(SERVER_FILE)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Says that it is us.
    fn write(&self, data_dir: &Path) -> std::io::Result<()> {
        let unfinished = data_dir.join(format!("{SERVER_FILE}.tmp"));
        // What a crash left there is of no use.
        let _ = fs::remove_file(&unfinished);
        files::write_durably(&unfinished, &serde_json::to_vec(self)?)?;
        fs::rename(&unfinished, data_dir.join(SERVER_FILE))
    }
}

/// Keys that the operator chose, where a host would make its own.
#[derive(Clone, Default)]
pub(super) struct Chosen {
    /// The first admin key.
    pub(super) admin_key: Option<Secret>,
    /// Where the key for secrets comes from.
    pub(super) secrets_key: Option<KeySource>,
}

/// A host that serves from this process.
pub(super) struct Embedded {
    /// Where.
    pub(super) url: String,
    /// Where its metrics are, if not there.
    pub(super) metrics_url: Option<String>,
    /// Whether its first admin key was made just now and lies in the data directory.
    pub(super) is_new: bool,
    data_dir: PathBuf,
    tls: Option<Arc<Tls>>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Embedded {
    /// Opens the data directory and listens.
    pub(super) async fn start(
        settings: &Settings,
        chosen: Chosen,
        (audit, queued): (Audit, Queued),
    ) -> Result<Self, Failure> {
        let data_dir = settings.data_dir.clone();
        let tls = match (&settings.tls_cert, &settings.tls_key) {
            (Some(cert), Some(key)) => Some(Arc::new(Tls::load(cert, key)?)),
            _ => None,
        };
        check_authorities(settings)?;
        let had_key = data_dir.join(ADMIN_KEY_FILE).exists();
        let options = HostOptions { audit, queued, ..host_options(settings, chosen)? };
        let host = Host::open(options).await.map_err(|error| opened(&data_dir, error))?;
        let options = HttpOptions {
            listen: settings.listen,
            tls: tls.clone(),
            metrics_listen: settings.metrics_listen,
            max_upload_bytes: settings.upload_max_bytes,
            pace: Pace::default(),
            behind_proxy: settings.behind_proxy,
            allowed_hosts: settings.http_allowed_hosts.clone(),
            allowed_origins: settings.http_allowed_origins.clone(),
        };
        let server = Server::bind(host, options).await.map_err(|error| {
            Failure::from(error).hint("another program listens there; choose a port with --listen, 0 for a free one")
        })?;
        let (url, metrics_url) = (server.url(), server.metrics_url());
        announce(&data_dir, &url, tls.as_deref())?;
        let (stop, stopped) = oneshot::channel();
        let drain = settings.shutdown_drain;
        let serving = tokio::spawn(async move {
            server.run(async { drop(stopped.await) }, drain).await;
        });
        let is_new = !had_key && data_dir.join(ADMIN_KEY_FILE).exists();
        Ok(Self { url, metrics_url, is_new, data_dir, tls, stop, serving })
    }

    /// Reads certificate and key again.
    pub(super) fn reload(&self) -> Result<(), Failure> {
        if let Some(tls) = &self.tls {
            tls.reload()?;
            announce(&self.data_dir, &self.url, Some(tls))?;
        }
        Ok(())
    }

    /// Whether it still serves; resolves when it does not.
    pub(super) async fn ended(&mut self) {
        let _ = (&mut self.serving).await;
    }

    /// Stops taking requests, lets what runs end, and gives the data directory free.
    pub(super) async fn stop(self) {
        // First, so that nobody starts to talk to us now.
        let _ = fs::remove_file(self.data_dir.join(SERVER_FILE));
        let _ = self.stop.send(());
        let _ = self.serving.await;
    }
}

/// Reads what `egress.ca_file` names, before anything is opened.
fn check_authorities(settings: &Settings) -> Result<(), ConfigError> {
    let Some(file) = &settings.egress_ca_file else { return Ok(()) };
    let wrong = |why| {
        let source = settings.source("egress.ca_file");
        ConfigError::new(format!("egress.ca_file = \"{}\" ({source}): {why}", file.display()))
    };
    egress::authorities(file).map(drop).map_err(wrong)
}

/// Says in the data directory where this process serves.
fn announce(data_dir: &Path, url: &str, tls: Option<&Tls>) -> Result<(), Failure> {
    let holder = Holder { pid: std::process::id(), url: url.to_owned(), certificate: tls.map(Tls::certificate) };
    holder.write(data_dir).map_err(|error| Failure::internal(format!("cannot write {SERVER_FILE}: {error}")))
}

pub(super) fn host_options(settings: &Settings, chosen: Chosen) -> Result<HostOptions, Failure> {
    let mut options = HostOptions::new(&settings.data_dir, THIS_PROGRAM);
    options.admin_key = chosen.admin_key;
    options.secrets_key = chosen.secrets_key;
    options.admission = AdmissionSettings {
        concurrency_host: settings.concurrency_host,
        concurrency_per_owner: settings.concurrency_per_owner,
        queue_host: settings.queue_host,
        queue_per_owner: settings.queue_per_owner,
    };
    options.workspace = Quota { bytes: settings.workspace_max_bytes, files: settings.workspace_max_files as u64 };
    options.keep_results = settings.retention_results;
    options.keep_audit = settings.retention_audit;
    options.approval = settings.approval;
    options.webhook_attempts = u32::try_from(settings.webhooks_max_attempts).unwrap_or(u32::MAX);
    options.containers = settings.containers();
    options.catalogue =
        CatalogueSettings { disabled: settings.catalogue_disabled.clone(), dir: settings.catalogue_dir.clone() };
    options.egress =
        EgressSettings { allow_cidrs: settings.egress_allow_cidrs.clone(), ca_file: settings.egress_ca_file.clone() };
    options.reuse = ReuseSettings { max_calls: settings.reuse_max_calls, max_idle: settings.reuse_max_idle };
    options.sources = SourceSettings {
        allowed: settings.install_allowed_sources.clone(),
        insecure_hosts: settings.registry_insecure_hosts.clone(),
        timeout: settings.install_timeout,
        max_bytes: settings.upload_max_bytes,
        git_base_url: settings.install_git_base_url.clone(),
    };
    options.compile = CompileSettings {
        program: THIS_PROGRAM.into(),
        memory_mb: settings.compile_memory_mb,
        timeout: settings.compile_timeout,
        workers: settings.compile_workers,
    };
    Ok(options)
}

/// Why the data directory did not open.
fn opened(data_dir: &Path, error: Error) -> Failure {
    match directory_problem(&error) {
        Some(DirectoryProblem::Locked) => {}
        Some(DirectoryProblem::Unusable) => {
            let detail = format!("data_dir (--data-dir) {}: {}", data_dir.display(), error.detail);
            return Failure::new(Exit::Usage, "invalid_setting", detail)
                .hint("give a directory that only you can write, or one that is not there yet");
        }
        None => {
            let mut failure = Failure::from(error);
            failure.detail.insert_str(0, &format!("{}: ", data_dir.display()));
            return failure;
        }
    }
    let holder = match Holder::of(data_dir) {
        Some(holder) => format!("process {} uses it and serves {}", holder.pid, holder.url),
        None => "another process uses it".to_owned(),
    };
    Failure::new(Exit::Locked, "locked", format!("the data directory {} is locked: {holder}", data_dir.display()))
        .hint("stop that process, or give this one a directory of its own with --data-dir")
}

/// How long a command waits for a server that has the lock but does not answer yet.
pub(super) const STARTING: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::{Environment, Layers};
    use crate::model::Code;

    #[test]
    fn the_holder_is_read_as_it_was_written_and_for_this_user_only() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Holder::of(dir.path()), None);
        for pid in [1, 2] {
            let holder = Holder { pid, url: "https://127.0.0.1:1".into(), certificate: Some(Digest::of(b"")) };
            holder.write(dir.path()).unwrap();
            assert_eq!(Holder::of(dir.path()), Some(holder));
        }
        assert_eq!(fs::metadata(dir.path().join(SERVER_FILE)).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_defaults_of_settings_and_of_the_library_are_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let flags = BTreeMap::from([("data_dir", dir.path().to_str().unwrap().to_owned())]);
        let environment = Environment::default();
        let none = Path::new("/nonexistent");
        let layers = Layers { flags: &flags, config_file: None, environment: &environment, system_file: none };
        let from_settings = host_options(&Settings::load(&layers).unwrap(), Chosen::default()).unwrap();
        let library = HostOptions::new(dir.path(), THIS_PROGRAM);
        assert_eq!(format!("{from_settings:?}"), format!("{library:?}"));
    }

    #[test]
    fn a_locked_directory_has_its_own_exit_code() {
        let dir = tempfile::tempdir().unwrap();
        Holder { pid: 7, url: "http://127.0.0.1:1".into(), certificate: None }.write(dir.path()).unwrap();
        let because = |problem: DirectoryProblem| {
            let error = Error::new(Code::Unavailable, "it cannot be used");
            opened(dir.path(), Error { source: Some(Box::new(problem)), ..error })
        };
        let failure = because(DirectoryProblem::Locked);
        assert_eq!(failure.exit, Exit::Locked);
        assert!(failure.detail.contains("process 7 uses it"), "{}", failure.detail);
        assert_eq!(because(DirectoryProblem::Unusable).exit, Exit::Usage);
        assert_eq!(opened(dir.path(), Error::new(Code::Unavailable, "not there")).exit, Exit::Busy);
    }
}
