//! Settings that are lists: how each is read.

use ipnet::IpNet;

use crate::model::{Disabled, ImageRef, SourceRule};

use super::kinds::Kind;
use super::sources::Given;

/// Networks, maybe none.
pub(super) enum Networks {}

impl Kind for Networks {
    type Value = Vec<IpNet>;
    const WORD: &'static str = "CIDR[,CIDR]";
    const ALLOWED: &'static str =
        "networks with commas between, such as 10.1.0.0/16,fd00:1::/64, with no bit set behind the prefix";

    fn read(given: &Given) -> Option<Vec<IpNet>> {
        if given.text == "none" {
            return Some(Vec::new());
        }
        let network = |text: &str| text.trim().parse::<IpNet>().ok().filter(|network| network.trunc() == *network);
        given.text.split(',').map(network).collect()
    }
}

/// Names of hosts, maybe none.
pub(super) enum Hosts {}

impl Kind for Hosts {
    type Value = Vec<String>;
    const WORD: &'static str = "HOST[,HOST]";
    const ALLOWED: &'static str = "names of hosts with commas between, such as skills.example,skills.example:8443";

    fn read(given: &Given) -> Option<Vec<String>> {
        let host = |text: &str| {
            let parsed = url::Url::parse(&format!("http://{text}/")).ok()?;
            (parsed.path() == "/" && parsed.username().is_empty() && !text.contains('/')).then(|| text.to_owned())
        };
        words(given, host)
    }
}

/// Sites, maybe none.
pub(super) enum Origins {}

impl Kind for Origins {
    type Value = Vec<String>;
    const WORD: &'static str = "ORIGIN[,ORIGIN]";
    const ALLOWED: &'static str = "sites with commas between, such as https://app.example,http://localhost:3000";

    fn read(given: &Given) -> Option<Vec<String>> {
        let origin = |text: &str| {
            let parsed = url::Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
            (parsed.origin().ascii_serialization() == text.to_ascii_lowercase()).then(|| text.to_owned())
        };
        words(given, origin)
    }
}

/// Sources of skills, maybe none.
pub(super) enum SourceRules {}

impl Kind for SourceRules {
    type Value = Vec<SourceRule>;
    const WORD: &'static str = "SOURCE[,SOURCE]";
    const ALLOWED: &'static str = "sources with commas between, such as https://skills.example/*,oci://ghcr.io/acme/*";

    fn read(given: &Given) -> Option<Vec<SourceRule>> {
        words(given, |text| text.parse().ok())
    }
}

/// Images, maybe none.
pub(super) enum Images {}

impl Kind for Images {
    type Value = Vec<ImageRef>;
    const WORD: &'static str = "IMAGE[,IMAGE]";
    const ALLOWED: &'static str = "images with commas between, such as alpine:3.20,ghcr.io/acme/tool@sha256:…";

    fn read(given: &Given) -> Option<Vec<ImageRef>> {
        words(given, |text| text.parse().ok())
    }
}

/// Skills of the catalogue, maybe none or all.
pub(super) enum CatalogueNames {}

impl Kind for CatalogueNames {
    type Value = Disabled;
    const WORD: &'static str = "NAME[,NAME]";
    const ALLOWED: &'static str = "names of skills with commas between, such as web-fetch,http-request, or all";

    fn read(given: &Given) -> Option<Disabled> {
        given.text.parse().ok()
    }
}

/// The URL that others begin with.
pub(super) enum BaseUrl {}

impl Kind for BaseUrl {
    type Value = String;
    const WORD: &'static str = "URL";
    const ALLOWED: &'static str =
        "a URL that starts with https:// or http:// and has no query, such as https://github.com";

    fn read(given: &Given) -> Option<String> {
        let url = url::Url::parse(&given.text).ok().filter(|url| matches!(url.scheme(), "https" | "http"))?;
        let plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
        (plain && url.fragment().is_none()).then(|| url.as_str().trim_end_matches('/').to_owned())
    }
}

/// A list with commas between, or `none`.
fn words<T>(given: &Given, read: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    if given.text == "none" {
        return Some(Vec::new());
    }
    given.text.split(',').map(|word| read(word.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> Given {
        Given::by_default(text)
    }

    #[test]
    fn networks_are_a_list_and_each_is_written_as_it_counts() {
        let read = |text: &str| Networks::read(&given(text)).map(|networks| networks.len());
        assert_eq!(read("none"), Some(0));
        assert_eq!(read("10.0.0.0/8"), Some(1));
        assert_eq!(read("10.0.0.0/8, fd00:1::/64,127.0.0.1/32"), Some(3));
        for bad in ["", "10.0.0.1/8", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/8,", "localhost/8"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn sources_are_a_list_and_a_git_host_is_a_url() {
        let sources = |text: &str| SourceRules::read(&given(text)).map(|rules| rules.len());
        assert_eq!(sources("https://a.example/x/*, oci://ghcr.io/acme/*,acme/skills"), Some(3));
        assert_eq!(
            (sources("none"), sources("*"), sources("https://a.example,"), sources("a")),
            (Some(0), None, None, None)
        );
        assert_eq!(BaseUrl::read(&given("https://git.example/x/")).as_deref(), Some("https://git.example/x"));
        for bad in ["", "git.example", "ssh://git.example", "https://u@git.example", "https://git.example/?x"] {
            assert_eq!(BaseUrl::read(&given(bad)), None, "{bad}");
        }
    }

    #[test]
    fn names_of_hosts_and_sites_are_written_as_they_are_sent() {
        assert_eq!(Hosts::read(&given("a.example, b:8443")), Some(vec!["a.example".into(), "b:8443".into()]));
        assert_eq!(Origins::read(&given("https://a.example,http://b:3000")).map(|sites| sites.len()), Some(2));
        assert_eq!((Hosts::read(&given("none")), Origins::read(&given("none"))), (Some(vec![]), Some(vec![])));
        for bad in ["", "a/b", "https://a", "a,", "u@a"] {
            assert_eq!(Hosts::read(&given(bad)), None, "{bad}");
        }
        for bad in ["", "a.example", "https://a.example/", "https://a.example:443", "ftp://a"] {
            assert_eq!(Origins::read(&given(bad)), None, "{bad}");
        }
    }
}
