//! `skillvisor:skill/skills`: one skill calls another, and waits.
//!
//! While it waits it holds its instance and nothing else: no thread, and no place in any queue.

use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Linker, Lower};

use crate::model::{Code, Denial, Fuel, plain};
use crate::sandbox::ChildCall;

use super::state::State;

const NAME: &str = "skillvisor:skill/skills@0.1.0";
/// Most bytes of a skill's name in a denial.
const MAX_NAME: usize = 200;

/// The interface's `call-error`.
#[derive(Debug, ComponentType, Lift, Lower)]
#[component(record)]
struct CallError {
    code: String,
    message: String,
    detail: Option<String>,
}

type Answer = Result<String, CallError>;
type Store<'a> = StoreContextMut<'a, State>;

/// Links it, for every guest.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.instance(NAME)?.func_wrap_async("call", |store: Store<'_>, (skill, args): (String, String)| {
        Box::new(async move { Ok((call(store, skill, args).await?,)) })
    })
}

async fn call(mut store: Store<'_>, skill: String, args: String) -> wasmtime::Result<Answer> {
    let asked = plain(&skill, MAX_NAME);
    let children = store.data().powers.as_ref().and_then(|powers| powers.children());
    let Some(children) = children else {
        let fix = format!("add \"{asked}\" to grants.skills in the manifest and push it as a new version");
        let error = CallError { code: Code::Denied.to_string(), message: "no skill was granted".into(), detail: None };
        deny(store.data(), &asked, (format!("skills: {asked}"), fix));
        return Ok(Err(error));
    };
    let fuel = store.get_fuel().map_or(Fuel::Unlimited, Fuel::Metered);
    let reply = children.call(ChildCall { skill, args, fuel, deadline: store.data().deadline }).await;
    // What it used is used up here, so that nobody gets more by asking others.
    if let Some(fuel) = fuel.units() {
        store.set_fuel(fuel.saturating_sub(reply.fuel))?;
    }
    if let Some(missing) = reply.missing {
        deny(store.data(), &asked, missing);
    }
    Ok(match reply.outcome {
        Ok(output) => Ok(String::from(Box::<str>::from(output))),
        Err(error) => Err(CallError {
            code: error.code.to_string(),
            message: error.message,
            detail: error.detail.map(|detail| detail.to_string()),
        }),
    })
}

fn deny(state: &State, asked: &str, (grant, fix): (String, String)) {
    let import = "skillvisor:skill/skills".into();
    state.egress.deny(Denial { import, asked: asked.to_owned(), grant, fix });
}
