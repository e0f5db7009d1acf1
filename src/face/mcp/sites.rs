//! Which web pages may ask: a page whose name was made to lead here (DNS rebinding) may not.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use url::Url;

use crate::model::{Code, Error};

/// The names this server answers to, and the sites whose pages may talk to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sites {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Sites {
    /// Besides loopback names and addresses, `hosts`; besides pages of this server itself,
    /// `origins`, each `scheme://host[:port]`.
    pub(crate) fn new(hosts: &[String], origins: &[String]) -> Self {
        let small = |words: &[String]| words.iter().map(|word| word.to_ascii_lowercase()).collect();
        Self { hosts: small(hosts), origins: small(origins) }
    }

    /// Refuses a request by another name, or from another site.
    ///
    /// # Errors
    ///
    /// `forbidden`, naming the setting.
    pub(crate) fn require(&self, parts: &Parts) -> Result<(), Error> {
        let header = |name| parts.headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let authority = parts.uri.authority().map(|authority| authority.as_str()).or_else(|| header(HOST));
        let authority = authority.unwrap_or_default().to_ascii_lowercase();
        if !self.is_ours(&authority) {
            let detail = "this server does not answer to the name in `Host`; the setting http.allowed_hosts adds names";
            return Err(Error::new(Code::Forbidden, detail));
        }
        let Some(origin) = header(ORIGIN) else { return Ok(()) };
        let origin = origin.to_ascii_lowercase();
        if self.origins.contains(&origin) || is_same(&origin, &authority) {
            return Ok(());
        }
        let detail = "pages of that `Origin` may not talk to this server; the setting http.allowed_origins adds sites";
        Err(Error::new(Code::Forbidden, detail))
    }

    /// Whether `host[:port]` is a name of ours. No other name leads to an address that is given
    /// as such, so that all of those are.
    fn is_ours(&self, authority: &str) -> bool {
        let Some(url) = Url::parse(&format!("http://{authority}/")).ok().filter(|url| url.path() == "/") else {
            return false;
        };
        let Some(host) = url.host_str() else { return false };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost"
            || host.ends_with(".localhost")
            || bare.parse::<IpAddr>().is_ok()
            || self.hosts.iter().any(|allowed| allowed == authority || allowed == host)
    }
}

/// Whether a page comes from the server that it asks.
fn is_same(origin: &str, authority: &str) -> bool {
    let target = |scheme: &str| Url::parse(&format!("{scheme}://{authority}")).ok();
    let Some(page) = Url::parse(origin).ok() else { return false };
    ["http", "https"].iter().any(|scheme| target(scheme).is_some_and(|own| own.origin() == page.origin()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(host: &str, origin: Option<&str>) -> bool {
        let sites =
            Sites::new(&["Skills.example".into(), "other.example:8443".into()], &["https://app.example".into()]);
        let mut request = http::Request::post("/mcp").header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        sites.require(&request.body(()).unwrap().into_parts().0).is_ok()
    }

    #[test]
    fn a_name_that_was_made_to_lead_here_is_refused() {
        for good in ["localhost", "LOCALHOST:8", "127.0.0.1:20128", "[::1]:1", "192.0.2.7", "skills.example:443"] {
            assert!(asked(good, None), "{good}");
        }
        assert!(asked("other.example:8443", None));
        for bad in ["evil.example", "other.example", "127.0.0.1.evil.example", "", "a b", "evil.example/localhost", "?"]
        {
            assert!(!asked(bad, None), "{bad}");
        }
    }

    #[test]
    fn a_page_asks_its_own_server_or_is_allowed_to() {
        assert!(asked("localhost:1", Some("http://localhost:1")));
        assert!(asked("skills.example", Some("https://skills.example")));
        assert!(asked("127.0.0.1", Some("https://app.example")));
        for bad in ["https://evil.example", "null", "http://localhost:2", "https://app.example:8443", ""] {
            assert!(!asked("localhost:1", Some(bad)), "{bad}");
        }
    }
}
