//! What HTTP and JSON alone cost: `POST /echo` parses an execution request and gives it
//! back. `POST /spawn` does the same through a new process.
//!
//! Started as `bare <echo-process>`; prints the address that it listens on.

use std::io::Result;
use std::process::Stdio;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::Command;

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    skill_id: String,
    args: Value,
}

/// The multi-thread runtime has as many workers as this process has cores.
#[tokio::main]
async fn main() -> Result<()> {
    let echo_process = std::env::args().nth(1).unwrap_or("echo-process".into());
    let router = Router::new().route("/echo", post(echo)).route("/spawn", post(spawn)).with_state(echo_process);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    axum::serve(listener, router).await
}

async fn echo(Json(request): Json<Request>) -> Json<Request> {
    Json(request)
}

async fn spawn(
    State(program): State<String>,
    Json(mut request): Json<Request>,
) -> std::result::Result<Json<Request>, StatusCode> {
    request.args = through_process(&program, &request.args).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(Json(request))
}

async fn through_process(program: &str, args: &Value) -> Result<Value> {
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&serde_json::to_vec(args)?).await?;
    }
    let output = child.wait_with_output().await?;
    Ok(serde_json::from_slice(&output.stdout)?)
}
