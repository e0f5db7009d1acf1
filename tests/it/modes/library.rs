use serde_json::{Value, json};
use skillvisor::{CatalogueSettings, ExecutionRequest, Host, HostOptions, Manifest, Queued, Saying, Status, Told};

use crate::support::{guest, until};

fn options(dir: &std::path::Path) -> HostOptions {
    let mut options = HostOptions::new(dir.join("data"), env!("CARGO_BIN_EXE_skillvisor"));
    options.catalogue = CatalogueSettings::off();
    options.admission.concurrency_per_owner = 1;
    options
}

fn request(skill: &str, args: Value) -> ExecutionRequest {
    ExecutionRequest::new(skill.parse().unwrap(), args.into())
}

#[tokio::test]
async fn what_is_submitted_waits_over_a_restart_and_is_followed_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::open(options(dir.path())).await.unwrap();
    let caller = host.admin().unwrap();
    for name in ["slow-host-call", "program"] {
        let manifest = Manifest { name: Some(name.into()), version: Some("1.0.0".into()), ..Manifest::default() };
        host.register(&caller, manifest, guest(name)).await.unwrap();
    }
    let stands = async |host: &Host, id| host.get_execution(&caller, id).await.unwrap().status;
    let slow = host.submit(caller.clone(), request("slow-host-call", json!({ "ms": 60_000 }))).await.unwrap().id;
    until(async || (stands(&host, slow).await == Status::Running).then_some(())).await;
    let print = json!({ "way": "print", "text": "7" });
    let waiting = host.submit(caller.clone(), request("program", print)).await.unwrap();
    assert_eq!(waiting.status, Status::Pending);
    host.close().await;
    drop(host);
    // A host that is there for something else lets it wait.
    let mut leaving = options(dir.path());
    leaving.queued = Queued::Left;
    let host = Host::open(leaving).await.unwrap();
    let both = (stands(&host, slow).await, stands(&host, waiting.id).await);
    assert_eq!(both, (Status::Cancelled, Status::Pending));
    host.close().await;
    drop(host);
    let host = Host::open(options(dir.path())).await.unwrap();
    let mut following = host.follow(caller.clone(), waiting.id).await.unwrap();
    let mut printed = String::new();
    let end = loop {
        match following.next().await.unwrap() {
            Told::Heard(skillvisor::Heard::Event(event)) => match &event.said {
                Saying::Stdout(text) => printed += text,
                other => panic!("{other:?}"),
            },
            Told::Heard(other) => panic!("{other:?}"),
            Told::End(execution) => break execution,
        }
    };
    assert_eq!((end.status, end.output.unwrap().get()), (Status::Success, "7"));
    // It may have ended before it was followed.
    assert!(printed.is_empty() || printed == "7", "{printed}");
    assert!(following.next().await.is_none());
    host.close().await;
}
