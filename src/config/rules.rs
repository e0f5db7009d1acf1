//! What settings must be together.

use super::{ConfigError, Settings};

/// Refuses settings that do not go together.
pub(super) fn check(settings: Settings) -> Result<Settings, ConfigError> {
    let problems = [tls_pair(&settings), clear_text(&settings), open_metrics(&settings), same_address(&settings)];
    let problems: Vec<String> = problems.into_iter().flatten().collect();
    if problems.is_empty() { Ok(settings) } else { Err(ConfigError { problems }) }
}

/// A certificate is nothing without its key.
fn tls_pair(settings: &Settings) -> Option<String> {
    let (given, missing) = match (&settings.tls_cert, &settings.tls_key) {
        (Some(_), None) => ("tls.cert", "tls.key"),
        (None, Some(_)) => ("tls.key", "tls.cert"),
        _ => return None,
    };
    Some(format!("{given} ({}) is set and {missing} is not; set both or none", settings.source(given)))
}

/// Keys must not cross a network where anybody can read them.
fn clear_text(settings: &Settings) -> Option<String> {
    let has_tls = settings.tls_cert.is_some() || settings.tls_key.is_some();
    if settings.listen.ip().to_canonical().is_loopback() || has_tls || settings.behind_proxy {
        return None;
    }
    Some(format!(
        "listen = \"{}\" ({}) can be reached from other machines, and without TLS keys would cross the network in the \
         clear: set tls.cert and tls.key, or behind_proxy = true if a proxy in front of the server speaks TLS",
        settings.listen,
        settings.source("listen"),
    ))
}

/// The listener for metrics asks for no key, so only this machine may reach it, or who is let
/// through to it.
fn open_metrics(settings: &Settings) -> Option<String> {
    let listen = settings.metrics_listen.filter(|listen| !listen.ip().to_canonical().is_loopback())?;
    let source = settings.source("metrics.listen");
    (!settings.behind_proxy).then(|| {
        format!(
            "metrics.listen = \"{listen}\" ({source}) can be reached from other machines and asks for no key: give it \
             a loopback address, or set behind_proxy = true if only your own network reaches it; /metrics of the API \
             itself is there for admin keys"
        )
    })
}

/// Two listeners cannot share a port.
fn same_address(settings: &Settings) -> Option<String> {
    let same = settings.metrics_listen == Some(settings.listen) && settings.listen.port() != 0;
    same.then(|| {
        let source = settings.source("metrics.listen");
        format!(
            "metrics.listen = \"{}\" ({source}) is the address of listen; give it a port of its own",
            settings.listen
        )
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::super::{Environment, Layers};
    use super::*;

    fn problem<const N: usize>(flags: [(&'static str, &str); N]) -> String {
        let flags: BTreeMap<_, _> = flags.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        let settings = Settings::load(&Layers {
            flags: &flags,
            config_file: None,
            environment: &Environment::from([("HOME", "/nonexistent")]),
            system_file: Path::new("/nonexistent/s.toml"),
        });
        settings.err().map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn an_address_that_others_can_reach_needs_tls_or_a_proxy() {
        let open = problem([("listen", "0.0.0.0:80")]);
        assert!(open.contains("tls.cert and tls.key") && open.contains("behind_proxy = true"), "{open}");
        assert!(open.contains("(--listen)"), "{open}");
        assert_eq!(problem([("listen", "0.0.0.0:80"), ("behind_proxy", "true")]), "");
        assert_eq!(problem([("listen", "[::]:80"), ("tls.cert", "/c"), ("tls.key", "/k")]), "");
        for local in ["127.0.0.1:0", "127.9.9.9:80", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
            assert_eq!(problem([("listen", local)]), "", "{local}");
        }
        assert_ne!(problem([("listen", "192.168.1.1:80")]), "");
    }

    #[test]
    fn certificate_and_key_come_together() {
        assert_eq!(problem([("tls.cert", "/c")]), "tls.cert (--tls-cert) is set and tls.key is not; set both or none");
        assert!(problem([("tls.key", "/k")]).contains("tls.cert is not"));
    }

    #[test]
    fn metrics_have_an_address_of_their_own() {
        assert!(problem([("listen", "127.0.0.1:9"), ("metrics.listen", "127.0.0.1:9")]).contains("port of its own"));
        assert!(problem([("metrics.listen", "0.0.0.0:9")]).contains("asks for no key"));
        assert_eq!(problem([("metrics.listen", "0.0.0.0:9"), ("behind_proxy", "true")]), "");
        assert_eq!(problem([("metrics.listen", "[::1]:9")]), "");
        assert_eq!(problem([("listen", "127.0.0.1:0"), ("metrics.listen", "127.0.0.1:0")]), "");
    }
}
