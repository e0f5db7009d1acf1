//! `skillvisor serve`.

use std::path::Path;

use serde_json::{Value, json};

use crate::config::{LogFormat, Settings};
use crate::executor::Audit;
use crate::host::{ADMIN_KEY_FILE, Queued};

use super::context::Context;
use super::embed::Embedded;
use super::exit::{Exit, Failure};
use super::flags::SettingFlags;
use super::logging;
use super::signals::{Hangups, Signals};
use super::table::shell_word;

/// Run the server
///
/// Every setting can be a flag, a variable (SKILLVISOR_ and the setting's name, dots as
/// underscores, in capitals) or a line of skillvisor.toml; a flag goes before a variable,
/// and that before the file. SKILLVISOR_ADMIN_KEY, or the file that
/// SKILLVISOR_ADMIN_KEY_FILE names, sets the first admin key (at least 32 characters)
/// instead of a generated one. SIGTERM or SIGINT ends it gracefully, a second one at once;
/// SIGHUP reads the TLS certificate and its key again.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor serve
  skillvisor serve --listen 0.0.0.0:20128 --tls-cert chain.pem --tls-key key.pem
  skillvisor serve --listen 0.0.0.0:20128 --behind-proxy
  skillvisor serve --listen 127.0.0.1:0 --data-dir ./data --json")]
pub(super) struct ServeArgs {
    #[command(flatten)]
    settings: SettingFlags,

    /// For measuring what the audit costs: no record is safe
    #[cfg(feature = "measure")]
    #[arg(long, value_enum, default_value = "full")]
    unsafe_audit: AuditWord,
}

impl ServeArgs {
    /// When runs are written down: in every build but that of `scripts/bench`, as promised.
    fn audit(&self) -> Audit {
        #[cfg(feature = "measure")]
        return self.unsafe_audit.audit();
        #[cfg(not(feature = "measure"))]
        Audit::Full
    }
}

/// The values of `--unsafe-audit`.
#[cfg(feature = "measure")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum AuditWord {
    Full,
    OneCommit,
    None,
}

#[cfg(feature = "measure")]
impl AuditWord {
    fn audit(self) -> Audit {
        match self {
            Self::Full => Audit::Full,
            Self::OneCommit => Audit::AtEnd,
            Self::None => Audit::Off,
        }
    }
}

pub(super) async fn run(context: &Context, args: &ServeArgs) -> Result<Exit, Failure> {
    let settings = context.settings(&args.settings.values)?;
    let chosen = context.chosen(&settings)?;
    let output = context.output;
    logging::start(settings.log_format, &settings.log_level, output.has_terminal());
    if let Err(error) = crate::face::http::raise_descriptor_limit() {
        tracing::warn!("The limit on open files could not be raised, so fewer connections are taken: {error}");
    }
    if args.audit() != Audit::Full {
        tracing::warn!("--unsafe-audit is set: runs are not safely written down; never serve anybody like this");
    }
    let mut signals = Signals::new()?;
    let mut hangups = Hangups::new(settings.tls_cert.is_some())?;
    let mut host = tokio::select! {
        host = Embedded::start(&settings, chosen, (args.audit(), Queued::Begun)) => host?,
        () = signals.next() => return Ok(Exit::Success),
    };
    tracing::info!(url = %host.url, data_dir = %settings.data_dir.display(), "Skillvisor serves");
    if output.json {
        let mut ready = json!({ "event": "ready", "url": host.url });
        if let Some(url) = &host.metrics_url {
            ready["metricsUrl"] = Value::from(url.as_str());
        }
        output.line(&ready.to_string())?;
    }
    if settings.log_format == LogFormat::Text || output.has_terminal() && settings.log_format == LogFormat::Auto {
        output.note(&banner(&host.url, &settings, Path::new("skills/hello").is_dir()));
    }
    if host.is_new && output.has_terminal() {
        output.note(&first_key(&settings.data_dir)?);
    }
    loop {
        tokio::select! {
            () = host.ended() => return Err(Failure::internal("the server ended by itself; its log says why")),
            () = signals.next() => break,
            () = hangups.next() => reload(&host),
        }
    }
    tracing::info!("Skillvisor stops; what runs may end within {:?}", settings.shutdown_drain);
    tokio::select! {
        () = host.stop() => tracing::info!("Skillvisor has stopped"),
        () = signals.next() => tracing::warn!("Skillvisor stops at once"),
    }
    Ok(Exit::Success)
}

/// Takes a renewed certificate. One that cannot be used changes nothing.
fn reload(host: &Embedded) {
    match host.reload() {
        Ok(()) => tracing::info!("The TLS certificate was read again"),
        Err(failure) => tracing::error!("The TLS certificate stays as it was: {}", failure.detail),
    }
}

/// The first admin key, for whoever sits at the terminal.
fn first_key(data_dir: &Path) -> Result<String, Failure> {
    let path = data_dir.join(ADMIN_KEY_FILE);
    let key = std::fs::read_to_string(&path).map_err(|error| Failure::unreadable(&path, &error))?;
    Ok(format!("\nThe first admin key (also in {}):\n  {}\n", path.display(), key.trim()))
}

/// Where the server is and what to try first.
fn banner(url: &str, settings: &Settings, has_example: bool) -> String {
    let data_dir = settings.data_dir.display();
    let key_file = settings.data_dir.join(ADMIN_KEY_FILE);
    let mut lines = vec![
        format!("skillvisor {}", env!("CARGO_PKG_VERSION")),
        format!("  url        {url}"),
        format!("  data       {data_dir}"),
    ];
    if !key_file.exists() {
        lines.push("  admin key  as you set it; give it to clients as SKILLVISOR_KEY".to_owned());
        return lines.join("\n") + "\n";
    }
    lines.push(format!("  admin key  {}", key_file.display()));
    let folder = if has_example { "skills/hello" } else { "DIR" };
    lines.push("\nTry it in another terminal:".to_owned());
    lines.push(format!("  skillvisor push {folder}"));
    lines.push("  skillvisor exec hello --args '{\"name\":\"Ada\"}'".to_owned());
    let auth = format!("-H \"Authorization: Bearer $(cat {})\"", shell_word(&key_file.display().to_string()));
    let wasm = if has_example { "skills/hello/hello.wasm" } else { "FILE.wasm" };
    if url.starts_with("https:") {
        // Where to find the authority, only the operator knows.
        return lines.join("\n") + "\n";
    }
    lines.push("\nThe same with curl:".to_owned());
    lines.push(format!(
        "  curl -sS {auth} -H 'Content-Type: application/wasm' --data-binary @{wasm} '{url}/api/skills?name=hello&version=0.1.0'"
    ));
    lines.push(format!(
        "  curl -sS {auth} -H 'Content-Type: application/json' -d '{{\"skillId\":\"hello\",\"args\":{{\"name\":\"Ada\"}}}}' {url}/api/skills/executions"
    ));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::config::{Environment, Layers};

    use super::*;

    fn settings(dir: &Path) -> Settings {
        let flags = BTreeMap::from([("data_dir", dir.to_str().unwrap().to_owned())]);
        let environment = Environment::default();
        let none = Path::new("/nonexistent");
        Settings::load(&Layers { flags: &flags, config_file: None, environment: &environment, system_file: none })
            .unwrap()
    }

    #[test]
    fn the_banner_shows_commands_that_can_be_pasted_where_there_is_a_key_file() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path());
        let show = || banner("http://127.0.0.1:1", &settings, true).replace(dir.path().to_str().unwrap(), "DIR");
        assert!(!show().contains("curl"));
        std::fs::write(dir.path().join(ADMIN_KEY_FILE), "sk_x").unwrap();
        let banner = show();
        assert!(!banner.contains("sk_x"));
        assert!(banner.contains("  skillvisor push skills/hello\n"), "{banner}");
        assert!(banner.contains("\"Authorization: Bearer $(cat DIR/admin.key)\""), "{banner}");
        assert!(first_key(dir.path()).unwrap().contains("sk_x"));
    }
}
