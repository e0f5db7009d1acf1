//! Whether the grants of a run allow a request.

use http::Method;

use crate::model::{Layer, NetworkRule};

use super::allowance::Allowance;
use super::failure::Failure;
use super::target::{Host, Scheme, Target, host_and_port, normal_path};

/// What a run may connect to: each layer must allow a request.
#[derive(Clone, Debug, Default)]
pub struct NetworkGrant {
    /// What the manifest asks for.
    pub manifest: Vec<NetworkRule>,
    /// The ceiling of the key that registered the skill, as it was then.
    pub registrar: Vec<NetworkRule>,
    /// The ceilings of the skills that called this one, each as that of its registering key was.
    pub above: Vec<Vec<NetworkRule>>,
    /// The ceiling of the key that calls.
    pub caller: Vec<NetworkRule>,
    /// Whether who calls wants none of it.
    pub offline: bool,
    /// How much may still go out and in, where the key that calls has a budget.
    pub allowance: Option<Allowance>,
}

impl NetworkGrant {
    /// Refuses what a layer does not allow.
    ///
    /// # Errors
    ///
    /// `Denied`, with the first such layer.
    pub(super) fn check(&self, method: &Method, target: &Target) -> Result<(), Failure> {
        let layers =
            [(&self.manifest, Layer::Manifest), (&self.registrar, Layer::Registrar), (&self.caller, Layer::Caller)];
        for (rules, layer) in layers {
            if !rules.iter().any(|rule| allows(rule.as_str(), method, target)) {
                return Err(Failure::Denied(layer));
            }
        }
        let allowed = |rules: &Vec<NetworkRule>| rules.iter().any(|rule| allows(rule.as_str(), method, target));
        if !self.above.iter().all(allowed) {
            return Err(Failure::Denied(Layer::Parent));
        }
        if self.offline {
            return Err(Failure::Denied(Layer::Request));
        }
        let used_up = self.allowance.as_ref().is_some_and(Allowance::is_used_up);
        if used_up { Err(Failure::UsedUp) } else { Ok(()) }
    }
}

/// Whether `ceiling` allows all that `rule` does. One rule at a time: what two ceilings cover
/// only together counts as not covered.
pub fn covers(ceiling: &NetworkRule, rule: &NetworkRule) -> bool {
    if ceiling.as_str() == PUBLIC {
        return true;
    }
    let (Some(ceiling), Some(rule)) = (Rule::parse(ceiling.as_str()), Rule::parse(rule.as_str())) else { return false };
    let has = |method: &str| ceiling.methods.is_none_or(|all| all.split(',').any(|one| one == method));
    let methods = ceiling.methods.is_none() || rule.methods.is_some_and(|all| all.split(',').all(has));
    let host = match (rule.host.strip_prefix("*."), ceiling.host.strip_prefix("*.")) {
        (None, _) => Host::parse(rule.host).is_ok_and(|host| host_allows(ceiling.host, &host)),
        (Some(_), None) => false,
        (Some(above), Some(top)) => Host::parse(above)
            .is_ok_and(|above| Host::parse(top) == Ok(above.clone()) || host_allows(ceiling.host, &above)),
    };
    let path = match (ceiling.path.strip_suffix('*'), rule.path.strip_suffix('*')) {
        _ if ceiling.path.is_empty() => true,
        (Some(_), Some(start)) => path_allows(ceiling.path, start),
        (None, Some(_)) => false,
        (_, None) => !rule.path.is_empty() && normal_path(rule.path).is_ok_and(|path| path_allows(ceiling.path, &path)),
    };
    methods && host && path && (ceiling.scheme, ceiling.port) == (rule.scheme, rule.port)
}

/// The rule that allows every public address.
const PUBLIC: &str = "public";

/// The parts of a rule that is not `public`.
struct Rule<'a> {
    methods: Option<&'a str>,
    scheme: Scheme,
    host: &'a str,
    port: u16,
    path: &'a str,
}

impl<'a> Rule<'a> {
    fn parse(rule: &'a str) -> Option<Self> {
        let (methods, url) = rule.split_once(' ').map_or((None, rule), |(methods, url)| (Some(methods), url));
        let (scheme, rest) = url.split_once("://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let scheme = Scheme::parse(scheme)?;
        let (host, port) = host_and_port(authority).ok()?;
        Some(Self { methods, scheme, host, port: port.unwrap_or(scheme.default_port()), path })
    }
}

/// Whether a rule allows a request. A rule that can match nothing that is sent, as one with
/// `..` in its path, allows nothing.
pub(super) fn allows(rule: &str, method: &Method, target: &Target) -> bool {
    if rule == PUBLIC {
        return true;
    }
    let Some(Rule { methods, scheme, host, port, path }) = Rule::parse(rule) else { return false };
    let origin = &target.origin;
    methods.is_none_or(|methods| methods.split(',').any(|one| one == method.as_str()))
        && (scheme, port) == (origin.scheme, origin.port)
        && host_allows(host, &origin.host)
        && path_allows(path, &target.path)
}

/// Whether a host, or all names below one, stand for `asked`.
fn host_allows(host: &str, asked: &Host) -> bool {
    let Some(above) = host.strip_prefix("*.") else { return Host::parse(host).is_ok_and(|host| host == *asked) };
    match (Host::parse(above), asked) {
        (Ok(Host::Name(above)), Host::Name(asked)) => {
            asked.strip_suffix(above.as_str()).is_some_and(|rest| rest.ends_with('.'))
        }
        _ => false,
    }
}

/// Whether a path, or all that begin with it, stand for `asked`.
fn path_allows(path: &str, asked: &str) -> bool {
    match path.strip_suffix('*') {
        _ if path.is_empty() => true,
        Some(start) => normal_path(start).is_ok_and(|start| asked.starts_with(&start)),
        None => normal_path(path).is_ok_and(|path| path == asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(rule: &str, method: &str, url: &str) -> bool {
        // Only what the grammar takes is a rule.
        let rule: NetworkRule = rule.parse().unwrap();
        allows(rule.as_str(), &method.parse().unwrap(), &Target::parse(url).unwrap())
    }

    #[test]
    fn a_rule_allows_its_methods_host_port_and_path_and_nothing_beside() {
        for (rule, good, bad) in [
            ("public", &["https://a.example/x", "http://1.2.3.4:81/"][..], &[][..]),
            (
                "https://a.example",
                &["https://a.example", "https://A.Example./x?y", "https://a.example:443/"],
                &["http://a.example/", "https://a.example:444/", "https://b.a.example/", "https://a.example.b/"],
            ),
            ("https://a.example/", &["https://a.example/", "https://a.example"], &["https://a.example/x"]),
            (
                "https://a.example/v1/*",
                &["https://a.example/v1/x", "https://a.example/v1/", "https://a.example/%76%31/x?..%2f"],
                &["https://a.example/v1", "https://a.example/V1/x", "https://a.example/v10"],
            ),
            ("https://a.example/v1*", &["https://a.example/v1", "https://a.example/v10/x"], &["https://a.example/v"]),
            ("https://a.example/%7Eu", &["https://a.example/~u", "https://a.example/%7eu"], &["https://a.example/~v"]),
            ("https://a.example/%c3%a9", &["https://a.example/%C3%A9"], &["https://a.example/%C3%A8"]),
            ("https://a.example/../x", &[], &["https://a.example/x", "https://a.example/"]),
            (
                "https://*.a.example",
                &["https://b.a.example/", "https://c.b.a.example/"],
                &["https://a.example/", "https://ba.example/", "https://a.example.b/"],
            ),
            ("http://[::1]:80/", &["http://[0:0::1]"], &["http://[::2]", "http://[::ffff:0:1]"]),
            ("http://127.0.0.1:8080", &["http://127.0.0.1:8080/x"], &["http://127.0.0.1", "http://localhost:8080"]),
            ("http://0x7f.1", &[], &["http://127.0.0.1"]),
            (
                "https://xn--bcher-kva.example",
                &["https://bücher.example/", "https://BÜCHER.example/"],
                &["https://bucher.example/"],
            ),
        ] {
            for url in good {
                assert!(may(rule, "GET", url), "{rule} must allow {url}");
            }
            for url in bad {
                assert!(!may(rule, "GET", url), "{rule} must not allow {url}");
            }
        }
        let rule = "GET,POST https://a.example";
        assert!(may(rule, "GET", "https://a.example") && may(rule, "POST", "https://a.example"));
        for method in ["PUT", "get", "GETT", "HEAD"] {
            assert!(!may(rule, method, "https://a.example"), "{method}");
        }
    }

    #[test]
    fn the_ceiling_of_every_skill_that_waits_must_allow_it_too() {
        let public = vec![NetworkRule::public()];
        let one: Vec<NetworkRule> = vec!["https://a.example".parse().unwrap()];
        let (manifest, registrar, caller) = (public.clone(), public.clone(), public.clone());
        let grant = NetworkGrant { manifest, registrar, above: vec![public, one], caller, ..NetworkGrant::default() };
        let check = |url: &str| grant.check(&Method::GET, &Target::parse(url).unwrap());
        assert_eq!(check("https://a.example/"), Ok(()));
        assert_eq!(check("https://b.example/"), Err(Failure::Denied(Layer::Parent)));
    }

    #[test]
    fn each_layer_must_allow_it_and_the_first_that_does_not_is_named() {
        let rules =
            |text: &str| text.split('|').filter(|rule| !rule.is_empty()).map(|rule| rule.parse().unwrap()).collect();
        let check = |manifest, registrar, caller| {
            let grant = NetworkGrant {
                manifest: rules(manifest),
                registrar: rules(registrar),
                above: Vec::new(),
                caller: rules(caller),
                ..NetworkGrant::default()
            };
            grant.check(&Method::GET, &Target::parse("https://a.example/x").unwrap())
        };
        assert_eq!(check("public", "https://b.example|https://a.example", "GET https://*.example"), Ok(()));
        assert_eq!(check("", "public", "public"), Err(Failure::Denied(Layer::Manifest)));
        assert_eq!(check("public", "https://b.example", ""), Err(Failure::Denied(Layer::Registrar)));
        assert_eq!(check("public", "public", "POST https://a.example"), Err(Failure::Denied(Layer::Caller)));
        assert_eq!(
            NetworkGrant::default().check(&Method::GET, &Target::parse("https://a.example").unwrap()),
            Err(Failure::Denied(Layer::Manifest))
        );
    }

    #[test]
    fn what_is_allowed_ends_with_the_budget() {
        let rules = vec![NetworkRule::public()];
        let allowance = Allowance::new(10, std::sync::Arc::default());
        let (manifest, registrar, caller) = (rules.clone(), rules.clone(), rules);
        let allowed = Some(allowance.clone());
        let grant = NetworkGrant { manifest, registrar, caller, allowance: allowed, ..NetworkGrant::default() };
        let check = || grant.check(&Method::GET, &Target::parse("https://a.example").unwrap());
        allowance.spend(9);
        assert_eq!(check(), Ok(()));
        allowance.spend(1);
        assert_eq!(check(), Err(Failure::UsedUp));
    }

    #[test]
    fn a_ceiling_covers_a_rule_if_it_allows_all_of_it() {
        let covers = |ceiling: &str, rule: &str| super::covers(&ceiling.parse().unwrap(), &rule.parse().unwrap());
        for (ceiling, good, bad) in [
            ("public", &["public", "GET https://a.example/x"][..], &[][..]),
            (
                "https://a.example",
                &["https://a.example/x", "GET https://A.example:443", "https://a.example/*"],
                &["public", "http://a.example", "https://a.example:444", "https://*.a.example"],
            ),
            (
                "https://*.a.example",
                &["https://b.a.example", "https://*.b.a.example", "https://*.a.example"],
                &["https://a.example", "https://*.example"],
            ),
            (
                "GET,PUT https://a.example",
                &["GET https://a.example", "PUT,GET https://a.example"],
                &["https://a.example", "GET,POST https://a.example"],
            ),
            (
                "https://a.example/v1/*",
                &["https://a.example/v1/x", "https://a.example/v1/*", "https://a.example/v1/x/*"],
                &["https://a.example", "https://a.example/*", "https://a.example/v1*", "https://a.example/v1/../x"],
            ),
            (
                "https://a.example/x",
                &["https://a.example/x"],
                &["https://a.example/x*", "https://a.example", "https://a.example/y"],
            ),
        ] {
            for rule in good {
                assert!(covers(ceiling, rule), "{ceiling} covers {rule}");
            }
            for rule in bad {
                assert!(!covers(ceiling, rule), "{ceiling} does not cover {rule}");
            }
        }
    }
}
