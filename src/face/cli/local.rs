//! The way to a server: the one that was named, the one on this machine, or none at all.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::config::{LogFormat, Settings, read_secret};
use crate::executor::Audit;
use crate::host::{ADMIN_KEY_FILE, Queued};
use crate::model::Secret;

use super::client::{Client, no_key};
use super::context::Context;
use super::embed::{Embedded, Holder, STARTING};
use super::exit::{Exit, Failure};
use super::logging;
use super::trust::Trust;

/// A client, and the host behind it if this process opened one for itself.
pub(super) struct Connection {
    /// The client.
    pub(super) client: Client,
    host: Option<Embedded>,
}

impl Connection {
    /// Finds a server or becomes one.
    ///
    /// The key in the data directory goes only to whoever holds that directory's lock: a
    /// file that a dead server left may name a port that somebody else has taken since.
    pub(super) async fn open(context: &Context) -> Result<Self, Failure> {
        Self::open_with(context, context.given_key()?).await
    }

    /// The same, with this key if there is one.
    pub(super) async fn open_with(context: &Context, key: Option<Secret>) -> Result<Self, Failure> {
        context.environment.check_names()?;
        if let Some(url) = context.given_url() {
            return Self::to_named(context, url, key);
        }
        let settings = quiet(context.settings(&BTreeMap::new())?);
        if !settings.data_dir.exists() {
            // A directory that is made by mistake would answer as an empty host does.
            let detail = format!("there is no data directory {}", settings.data_dir.display());
            return Err(Failure::new(Exit::Unreachable, "no_data_dir", detail)
                .hint("`skillvisor serve` makes it; --data-dir names another one, --url a server elsewhere"));
        }
        logging::start(settings.log_format, &settings.log_level, context.output.has_terminal());
        let chosen = context.chosen(&settings)?;
        let keys = Keys { given: key, admin: chosen.admin_key.clone() };
        let give_up = Instant::now() + STARTING;
        loop {
            let locked = match Embedded::start(&settings, chosen.clone(), (Audit::Full, Queued::Left)).await {
                Ok(host) => return Self::to_ourselves(host, &settings.data_dir, &keys),
                Err(failure) if failure.exit == Exit::Locked => failure,
                Err(failure) => return Err(failure),
            };
            if let Some(client) = holder_client(&settings.data_dir, &keys).await? {
                return Ok(Self { client, host: None });
            }
            if Instant::now() >= give_up {
                return Err(locked);
            }
            // It starts or it stops; a moment later it answers, or the lock is free.
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn to_named(context: &Context, url: &str, key: Option<Secret>) -> Result<Self, Failure> {
        let key = key.ok_or_else(|| no_key(url))?;
        let client = Client::new(url, Some(key), &Trust::Authorities(context.ca_file()))?;
        if client.is_clear_text() {
            context.output.note("warning: the key crosses the network in the clear; use https://");
        }
        Ok(Self { client, host: None })
    }

    fn to_ourselves(host: Embedded, data_dir: &Path, keys: &Keys) -> Result<Self, Failure> {
        let key = keys.choose(data_dir)?;
        let client = Client::new(&host.url, Some(key), &Trust::Holder(None))?;
        Ok(Self { client, host: Some(host) })
    }

    /// Whether the host ends with this command.
    pub(super) fn is_ours(&self) -> bool {
        self.host.is_some()
    }

    /// Stops the host, if it is ours.
    pub(super) async fn close(self) {
        if let Some(host) = self.host {
            host.stop().await;
        }
    }
}

/// The settings for a host that serves one command, and whoever joins it.
fn quiet(mut settings: Settings) -> Settings {
    settings.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    settings.tls_cert = None;
    settings.tls_key = None;
    settings.metrics_listen = None;
    // Another command may have joined with a long run; that one is not cut off.
    settings.shutdown_drain = Duration::from_secs(600);
    if !settings.is_given("log.level") {
        "warn".clone_into(&mut settings.log_level);
    }
    if settings.log_format == LogFormat::Auto {
        settings.log_format = LogFormat::Text;
    }
    settings
}

/// A client for the holder of the lock, if it answers.
async fn holder_client(data_dir: &Path, keys: &Keys) -> Result<Option<Client>, Failure> {
    let Some(holder) = Holder::of(data_dir) else { return Ok(None) };
    let trust = Trust::Holder(holder.certificate);
    let probe = Client::new(&holder.url, None, &trust)?;
    // Whoever takes the lock removes what the last holder left: what still stands there after
    // an answer is not a dead host's, whose port may be a stranger's.
    if !probe.is_alive().await || Holder::of(data_dir).as_ref() != Some(&holder) {
        return Ok(None);
    }
    Client::new(&holder.url, Some(keys.choose(data_dir)?), &trust).map(Some)
}

/// The keys that a command on the server's own machine may use.
struct Keys {
    /// The one that was given for clients.
    given: Option<Secret>,
    /// The first admin key, if somebody chose it.
    admin: Option<Secret>,
}

impl Keys {
    /// The key that was given, else the one in the data directory, else the chosen admin key.
    fn choose(&self, data_dir: &Path) -> Result<Secret, Failure> {
        let path = data_dir.join(ADMIN_KEY_FILE);
        let own = match (&self.given, &self.admin) {
            (Some(key), _) => return Ok(key.clone()),
            (None, Some(key)) if !path.exists() => return Ok(key.clone()),
            _ => read_secret(&path),
        };
        own.map_err(|why| {
            Failure::new(Exit::NotAllowed, "unauthenticated", format!("no key: {why}"))
                .hint("set SKILLVISOR_KEY or give --key-file FILE")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_given_key_goes_before_the_directorys_and_that_before_the_chosen_one() {
        let dir = tempfile::tempdir().unwrap();
        let secret = |text| Secret::new(text).ok();
        let chosen = |given, admin| Keys { given, admin }.choose(dir.path()).map(|key| key.reveal().to_owned());
        assert_eq!(chosen(None, None).unwrap_err().exit, Exit::NotAllowed);
        assert_eq!(chosen(None, secret("admin")).unwrap(), "admin");
        std::fs::write(dir.path().join(ADMIN_KEY_FILE), "file").unwrap();
        assert_eq!(chosen(None, secret("admin")).unwrap(), "file");
        assert_eq!(chosen(secret("given"), secret("admin")).unwrap(), "given");
    }
}
