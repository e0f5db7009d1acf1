//! `skillvisor mcp`: the Model Context Protocol over stdin and stdout.
//!
//! Lines go to `/mcp` of a server and come back from there: of the one on this machine, or of
//! one that this process opens for itself.

mod bridge;
mod head;
mod key;
mod lines;
mod streams;

use std::collections::BTreeMap;

use super::client::Client;
use super::context::Context;
use super::exit::{Exit, Failure};
use super::local::Connection;
use super::signals::Signals;

use self::bridge::Bridge;

/// Serve skills as tools over stdin and stdout, for clients of the Model Context Protocol
///
/// Joins the server on this machine, or opens the data directory itself. The key is
/// SKILLVISOR_KEY or --key-file, else one of its own that may look and run (mcp.key in the data
/// directory): never the admin key. Ends with stdin, once all calls are answered.
#[derive(clap::Args)]
#[command(after_help = "\
Example, for a client's settings:
  { \"mcpServers\": { \"skills\": { \"command\": \"skillvisor\", \"args\": [\"mcp\"] } } }")]
pub(super) struct McpArgs {}

pub(super) async fn run(context: &Context) -> Result<Exit, Failure> {
    let mut signals = Signals::new()?;
    let interrupted = || Err(Failure::silent(Exit::Interrupted));
    let (connection, client) = tokio::select! {
        opened = open(context) => opened?,
        () = signals.next() => return interrupted(),
    };
    let bridge = Bridge::new(client, context.output);
    let result = tokio::select! {
        result = bridge.run() => result.map(|()| Exit::Success),
        () = signals.next() => interrupted(),
    };
    tokio::select! {
        () = connection.close() => result,
        () = signals.next() => interrupted(),
    }
}

/// A connection with a key that is not the admin's by chance.
async fn open(context: &Context) -> Result<(Connection, Client), Failure> {
    let given = context.given_key()?;
    if given.is_some() || context.given_url().is_some() {
        let connection = Connection::open_with(context, given).await?;
        let client = connection.client.clone();
        return Ok((connection, client));
    }
    let data_dir = context.settings(&BTreeMap::new())?.data_dir;
    let known = key::read(&data_dir)?;
    let connection = Connection::open_with(context, known.clone()).await?;
    let key = match known {
        Some(key) => key,
        None => key::make(&connection.client, &data_dir).await?,
    };
    let client = connection.client.with_key(key);
    key::check(&client).await?;
    Ok((connection, client))
}
