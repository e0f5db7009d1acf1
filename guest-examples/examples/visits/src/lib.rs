//! Counts visits: `{"name": "Ada"}` gives `{"greeting": "Hello, Ada", "visits": 1}`, then 2, and so on.

wit_bindgen::generate!({
    path: ["../../../wit", "wit"],
    world: "example:visits/visits",
    generate_all,
});

use serde::{Deserialize, Serialize};

use wasi::config::store as config;
use wasi::keyvalue::{atomics, store};
use wasi::logging::logging::{self, Level};

/// What the caller sends.
#[derive(Deserialize)]
struct Args {
    name: String,
}

/// What the caller gets.
#[derive(Serialize)]
struct Answer {
    greeting: String,
    visits: i64,
}

struct Visits;

impl Guest for Visits {
    fn run(args: String) -> Result<String, SkillError> {
        let args: Args =
            serde_json::from_str(&args).map_err(|error| refused("bad-args", error.to_string()))?;
        let visits = count(&args.name).map_err(|error| refused("not-counted", reason(error)))?;
        logging::log(Level::Info, "visits", &format!("visit {visits}"));
        let word = config::get("GREETING").ok().flatten();
        let word = word.unwrap_or_else(|| "Hello".into());
        let greeting = format!("{word}, {}", args.name);
        serde_json::to_string(&Answer { greeting, visits })
            .map_err(|error| refused("bad-answer", error.to_string()))
    }
}

/// One visit more. Runs at the same time all count.
fn count(name: &str) -> Result<i64, store::Error> {
    let bucket = store::open("default")?;
    atomics::increment(&bucket, &format!("visits/{name}"), 1)
}

fn reason(error: store::Error) -> String {
    match error {
        store::Error::NoSuchStore => "there is no such bucket".into(),
        store::Error::AccessDenied => "the manifest does not ask for grants.kv".into(),
        store::Error::Other(why) => why,
    }
}

fn refused(code: &str, message: String) -> SkillError {
    SkillError {
        code: code.into(),
        message,
    }
}

export!(Visits);
