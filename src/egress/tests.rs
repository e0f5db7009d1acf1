use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, Request};
use http_body_util::{BodyExt, Empty};
use proptest::prelude::*;
use tokio::runtime::Runtime;

use super::corpus::{Fate, HOSTS, PATHS};
use super::outside::{Outside, Script};
use super::*;
use crate::model::{Layer, OwnerId};

/// A guard in front of a network that a test wrote.
fn guard(answers: &[&[&str]], allow: &[&str]) -> Arc<Guard> {
    let parsed = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
    let script = Script { answers: parking_lot::Mutex::new(answers.iter().map(parsed).collect()), ..Script::default() };
    let allow_cidrs = allow.iter().map(|network| network.parse().unwrap()).collect();
    Guard::in_front_of(Outside::Scripted(script), EgressSettings { allow_cidrs, ca_file: None }).unwrap()
}

fn grant(rule: &str) -> NetworkGrant {
    let rules = vec![rule.parse().unwrap()];
    NetworkGrant { manifest: rules.clone(), registrar: rules.clone(), caller: rules, ..NetworkGrant::default() }
}

fn errand(deadline: Duration) -> Errand {
    Errand {
        owner: OwnerId::system(),
        deadline: Instant::now() + deadline,
        connect_timeout: None,
        first_byte_timeout: None,
        between_bytes_timeout: None,
        most_body: MAX_BODY,
        meter: Meter::default(),
    }
}

/// What a `GET` comes to, in front of a network where nobody answers.
async fn get(guard: &Arc<Guard>, rule: &str, url: &str) -> Failure {
    let target = Target::parse(url).map_err(Failure::Unsafe);
    let admitted = match target.and_then(|target| guard.admit(&grant(rule), &Method::GET, target)) {
        Ok(admitted) => admitted,
        Err(failure) => return failure,
    };
    let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let sent = guard.send(errand(Duration::from_secs(60)), admitted, Request::new(body)).await.unwrap();
    sent.err().unwrap()
}

fn seen(guard: &Guard) -> (Vec<String>, Vec<SocketAddr>) {
    let Outside::Scripted(script) = guard.outside() else { unreachable!() };
    (script.looked_up.lock().clone(), script.dialled.lock().clone())
}

async fn meets(corpus: &[(&str, Fate)], rule: &str) {
    for (url, fate) in corpus {
        let guard = guard(&[&["93.184.216.34"]], &[]);
        let failure = get(&guard, rule, url).await;
        let (looked_up, dialled) = seen(&guard);
        let met = match failure {
            Failure::Unsafe(_) => Fate::Unsafe,
            Failure::Denied(_) => Fate::Denied,
            Failure::Prohibited(_) => Fate::Prohibited,
            // Nobody is there, which is found out by dialling.
            Failure::Unreachable => Fate::Allowed,
            other => panic!("{url:?}: {other:?}"),
        };
        assert_eq!(met, *fate, "{url:?}: {failure:?}");
        assert_eq!(dialled.len(), usize::from(*fate == Fate::Allowed), "{url:?} dialled {dialled:?}");
        assert!(*fate == Fate::Allowed || looked_up.is_empty(), "{url:?} looked up {looked_up:?}");
    }
}

#[tokio::test]
async fn no_spelling_leads_to_an_address_that_is_not_public() {
    let urls: BTreeSet<_> = HOSTS.iter().chain(PATHS).map(|(url, _)| url).collect();
    assert!(urls.len() >= 120 && urls.len() == HOSTS.len() + PATHS.len(), "{}", urls.len());
    meets(HOSTS, "public").await;
}

#[tokio::test]
async fn no_spelling_of_a_path_gets_past_its_rule() {
    meets(PATHS, "GET https://api.example/v1/*").await;
}

#[tokio::test]
async fn what_no_rule_allows_is_not_even_looked_up() {
    let guard = guard(&[], &[]);
    let failure = get(&guard, "https://api.example", "https://c2VjcmV0.evil.example/").await;
    assert_eq!(failure, Failure::Denied(Layer::Manifest));
    assert_eq!(seen(&guard).0, Vec::<String>::new());
}

#[tokio::test]
async fn a_name_that_also_leads_inside_is_refused_whatever_its_other_addresses() {
    for answer in
        [&["10.0.0.1"][..], &["93.184.216.34", "127.0.0.1"], &["::ffff:93.184.216.34"], &["fd00::1", "8.8.8.8"]]
    {
        let guard = guard(&[answer], &[]);
        assert!(matches!(get(&guard, "public", "https://a.example/").await, Failure::Prohibited(_)), "{answer:?}");
        assert_eq!(seen(&guard).1, Vec::new(), "{answer:?}");
    }
}

#[tokio::test]
async fn an_answer_that_changes_is_asked_for_once_and_checked_each_time() {
    let guard = guard(&[&["93.184.216.34"], &["127.0.0.1"]], &[]);
    assert_eq!(get(&guard, "public", "http://a.example/").await, Failure::Unreachable);
    assert_eq!(seen(&guard), (vec!["a.example".into()], vec!["93.184.216.34:80".parse().unwrap()]));
    assert!(matches!(get(&guard, "public", "http://a.example/").await, Failure::Prohibited(_)));
    assert_eq!(seen(&guard).1.len(), 1);
}

#[tokio::test]
async fn an_operator_opens_networks_but_no_grants() {
    let guard = guard(&[&["10.1.2.3"]], &["10.1.0.0/16"]);
    assert_eq!(get(&guard, "public", "http://inside.example:81/").await, Failure::Unreachable);
    assert_eq!(seen(&guard).1, vec!["10.1.2.3:81".parse().unwrap()]);
    assert!(matches!(get(&guard, "public", "http://10.2.0.1/").await, Failure::Prohibited(_)));
    assert_eq!(get(&guard, "https://a.example", "http://10.1.2.3/").await, Failure::Denied(Layer::Manifest));
}

#[tokio::test]
async fn neither_tunnels_nor_traces_are_asked_for() {
    let guard = guard(&[], &[]);
    for method in [Method::CONNECT, Method::TRACE] {
        let target = Target::parse("https://a.example/").unwrap();
        assert!(matches!(guard.admit(&grant("public"), &method, target), Err(Failure::Unsafe(_))));
    }
}

#[test]
fn a_file_of_authorities_that_cannot_be_used_stops_the_start() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "hello").unwrap();
    let runtime = Runtime::new().unwrap();
    let _inside = runtime.enter();
    for path in [file.path().to_owned(), "/nonexistent".into()] {
        let error = Guard::new(EgressSettings { ca_file: Some(path), ..EgressSettings::default() }).err().unwrap();
        assert!(error.detail.starts_with("egress.ca_file cannot be used: "), "{error:?}");
    }
}

/// Addresses, most of them special.
fn addresses() -> impl Strategy<Value = IpAddr> {
    let v4 = any::<u32>().prop_map(|bits| IpAddr::from(bits.to_be_bytes()));
    let inside = (prop_oneof![Just([10, 0]), Just([127, 0]), Just([169, 254]), Just([192, 168])], any::<[u8; 2]>());
    let inside = inside.prop_map(|([a, b], [c, d])| IpAddr::from([a, b, c, d]));
    let v6 = any::<u128>().prop_map(|bits| IpAddr::from(bits.to_be_bytes()));
    let global = any::<u128>().prop_map(|bits| IpAddr::from((bits >> 3 | 1 << 125).to_be_bytes()));
    let mapped = any::<u32>().prop_map(|bits| IpAddr::from((0xffff_0000_0000 | u128::from(bits)).to_be_bytes()));
    prop_oneof![v4, inside, v6, global, mapped]
}

proptest! {
    #[test]
    fn no_special_address_is_ever_dialled(found in proptest::collection::vec(addresses(), 0..4), literal in addresses()) {
        let runtime = Runtime::new().unwrap();
        let dialled = runtime.block_on(async {
            let script = Script { answers: parking_lot::Mutex::new([found.clone()].into()), ..Script::default() };
            let guard = Guard::in_front_of(Outside::Scripted(script), EgressSettings::default()).unwrap();
            get(&guard, "public", "http://a.example/").await;
            let by_name = seen(&guard).1.len();
            let host = if literal.is_ipv6() { format!("[{literal}]") } else { literal.to_string() };
            get(&guard, "public", &format!("http://{host}/")).await;
            (by_name, seen(&guard).1)
        });
        prop_assert!(dialled.1.iter().all(|address| !address::is_special(address.ip())), "{dialled:?}");
        let all_public = !found.is_empty() && found.iter().all(|address| !address::is_special(*address));
        prop_assert_eq!(dialled.0 > 0, all_public, "{:?}", found);
    }

    #[test]
    fn what_is_matched_is_what_is_sent(url in "https?://[a-z.]{1,8}(/[a-zA-Z.%0-9;_~-]{0,6}){0,3}") {
        if let Ok(target) = Target::parse(&url) {
            // Reading what is sent again changes nothing: there is no second spelling.
            let again = Target::parse(&format!("{}{}", target.origin(), target.path_and_query()));
            prop_assert_eq!(again, Ok(target));
        }
    }
}
