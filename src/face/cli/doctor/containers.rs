//! What runs container skills on this machine.

use crate::config::Settings;
use crate::face::cli::context::Context;
use crate::face::cli::sandbox::runner;
use crate::model::EngineChoice;

use super::Check;

pub(super) async fn check(context: &Context, settings: &Settings) -> Check {
    let name = "containers";
    let none = "none: container skills are unavailable, and everything else works";
    if settings.containers_engine == EngineChoice::None {
        return Check::ok(name, format!("{none} (containers.engine = none)"));
    }
    let engine = match runner(context) {
        Ok((runner, _scratch)) => runner.engine().await.map_err(|error| error.detail),
        Err(failure) => Err(failure.detail),
    };
    match engine {
        Ok(engine) => Check::ok(name, engine),
        Err(why) => {
            let mend = "install Podman (apt-get install podman) or Docker, or start Docker's daemon; or set \
                        containers.engine = none, if no skill needs one";
            Check::warn(name, format!("{none}: {why}"), mend)
        }
    }
}
