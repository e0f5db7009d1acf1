//! Log lines, always on stderr.

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// Starts writing log lines of `level`, which has been checked with the settings.
pub(super) fn start(format: LogFormat, level: &str, is_terminal: bool) {
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info"));
    // It would log what goes in and out of skills, and a line for whatever a client does wrong.
    let filter = match "rmcp=off".parse() {
        Ok(silence) => filter.add_directive(silence),
        Err(_) => filter,
    };
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Fails only where something else writes log lines already.
    let _ = if is_json(format, is_terminal) {
        lines.json().flatten_event(true).try_init()
    } else {
        lines.with_ansi(is_terminal).try_init()
    };
}

/// Whether programs read the log.
pub(super) fn is_json(format: LogFormat, is_terminal: bool) -> bool {
    match format {
        LogFormat::Auto => !is_terminal,
        LogFormat::Json => true,
        LogFormat::Text => false,
    }
}
