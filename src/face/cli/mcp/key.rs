//! The key of agents on this machine: it may look and run, in the namespace of the local
//! command line.

use std::path::{Path, PathBuf};

use reqwest::Method;
use serde_json::{Value, json};

use crate::config::read_secret;
use crate::files;
use crate::model::{OwnerId, Scope, Secret};

use super::super::client::Client;
use super::super::exit::{Exit, Failure};

/// The file with it.
const FILE: &str = "mcp.key";

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(FILE)
}

/// The key, if it was made.
pub(super) fn read(data_dir: &Path) -> Result<Option<Secret>, Failure> {
    let path = path(data_dir);
    if !path.exists() {
        return Ok(None);
    }
    read_secret(&path).map(Some).map_err(|why| Failure::new(Exit::NotAllowed, "unauthenticated", why).hint(AGAIN))
}

const AGAIN: &str = "remove mcp.key from the data directory to have a new one made, or set SKILLVISOR_KEY";

/// Makes the key, with the admin key that `client` has.
pub(super) async fn make(client: &Client, data_dir: &Path) -> Result<Secret, Failure> {
    let scopes = [Scope::SkillsRead, Scope::SkillsExecute];
    let body = json!({ "name": "mcp on this machine", "owner": OwnerId::admin(), "scopes": scopes });
    let made = client.send_json(Method::POST, &["api", "keys"], body.to_string()).await?.json()?;
    let secret = made.get("secret").and_then(Value::as_str).unwrap_or_default();
    match files::write_durably(&path(data_dir), secret.as_bytes()) {
        Ok(()) => {}
        // Another one of us was faster, and its key is as good.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            if let Some(key) = read(data_dir)? {
                return Ok(key);
            }
        }
        Err(error) => return Err(Failure::internal(format!("cannot write {FILE}: {error}"))),
    }
    Secret::new(secret).map_err(|why| Failure::internal(format!("the key that was made {why}")))
}

/// Refuses to start with a key that no longer works: whoever ended it did so on purpose.
pub(super) async fn check(client: &Client) -> Result<(), Failure> {
    let asked = client.get(&["api", "skills"], &[("limit", Some("1"))]).await;
    asked.map(drop).map_err(|failure| match failure.exit {
        Exit::NotAllowed => failure.hint(AGAIN),
        _ => failure,
    })
}
