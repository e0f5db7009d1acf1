use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use skillvisor::model::{DecisionAction, Phase};
use skillvisor::{
    After, Asked, Before, Code, Execution, ExecutionRequest, Host, HostOptions, Interceptor, Manifest,
    NativeInterceptor, Outcome, Status,
};

use crate::support::guest;

/// Does what the arguments say, and notes when it was asked.
struct Obedient(&'static str, Arc<Mutex<Vec<String>>>);

impl Interceptor for Obedient {
    fn before(&self, asked: &mut Asked<'_>) -> Before {
        self.1.lock().push(format!("{} before", self.0));
        asked.add_context(self.0, json!(asked.context().len()));
        let args = asked.args();
        assert!(!args.contains("panic"), "as it was asked to");
        if args.contains("sleep") {
            std::thread::sleep(Duration::from_secs(3));
        }
        if args.contains("change") { Before::Replace(json!({ "by": self.0 }).into()) } else { Before::Continue }
    }

    fn after(&self, outcome: &mut Outcome<'_>) -> After {
        self.1.lock().push(format!("{} after", self.0));
        if !outcome.args().contains("mark") {
            return After::Pass;
        }
        let marked = format!("[{},{:?}]", outcome.output().unwrap(), self.0);
        outcome.set_output(marked).unwrap();
        After::Changed
    }
}

type Notes = Arc<Mutex<Vec<String>>>;

async fn host(set: impl Fn(&mut [NativeInterceptor; 2])) -> (Host, Notes, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let notes = Notes::default();
    let one = |name: &'static str, order, waits| {
        let mut one = NativeInterceptor::new(name.parse().unwrap(), Obedient(name, Arc::clone(&notes)));
        (one.order, one.waits, one.timeout) = (order, waits, Duration::from_millis(300));
        one
    };
    let mut both = [one("second", 2, true), one("first", 1, false)];
    set(&mut both);
    let mut options = HostOptions::new(dir.path().join("data"), env!("CARGO_BIN_EXE_skillvisor"));
    options.interceptors = both.into();
    let host = Host::open(options).await.unwrap();
    for name in ["echo", "additions"] {
        let manifest = Manifest { name: Some(name.into()), version: Some("1.0.0".into()), ..Manifest::default() };
        host.register(&host.admin().unwrap(), manifest, guest(name)).await.unwrap();
    }
    (host, notes, dir)
}

async fn run(host: &Host, skill: &str, args: serde_json::Value) -> Execution {
    let request = ExecutionRequest::new(skill.parse().unwrap(), args.into());
    host.execute(host.admin().unwrap(), request).await.unwrap()
}

fn output(execution: &Execution) -> &str {
    execution.output.as_ref().unwrap().get()
}

#[tokio::test(flavor = "multi_thread")]
async fn those_of_the_program_are_asked_in_their_order_on_both_sides() {
    for waits in [true, false] {
        let (host, notes, _dir) = host(|both| both[0].waits = waits).await;
        let plain = run(&host, "echo", json!({ "a": 1 })).await;
        assert_eq!(output(&plain), r#"{"a":1}"#);
        assert_eq!(*notes.lock(), ["first before", "second before", "first after", "second after"]);
        assert_eq!(plain.interceptors.iter().filter(|one| one.name.as_str() == "first").count(), 0);
        assert_eq!(output(&run(&host, "echo", json!({ "mark": 1 })).await), r#"[[{"mark":1},"first"],"second"]"#);
        let changed = run(&host, "echo", json!({ "change": 1 })).await;
        assert_eq!(output(&changed), r#"{"by":"first"}"#);
        assert_eq!(changed.interceptors[0].action, DecisionAction::Replace);
        assert!(changed.interceptors[0].args_digest.is_some());
        assert_eq!(output(&run(&host, "additions", json!({})).await), r#"{"first":0,"second":1}"#);
        host.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_panics_or_sleeps_too_long_refuses_the_run_unless_it_is_optional() {
    for optional in [false, true] {
        let (host, _notes, _dir) = host(|both| both.iter_mut().for_each(|one| one.optional = optional)).await;
        for (way, problem) in [("panic", "panic"), ("sleep", "timeout")] {
            let ran = run(&host, "echo", json!({ "way": way })).await;
            let failed = ran.interceptors.iter().find(|one| one.problem.as_deref() == Some(problem)).unwrap();
            assert_eq!(failed.phase, Phase::Before, "{:?}", ran.interceptors);
            let code = ran.error.as_ref().map(|error| error.code);
            if optional {
                assert_eq!((failed.action, ran.status), (DecisionAction::Skipped, Status::Success));
            } else {
                assert_eq!((failed.action, code), (DecisionAction::Failed, Some(Code::Rejected)));
            }
        }
        host.close().await;
    }
}
