//! The `skillvisor` program: arguments in, exit code out.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use skillvisor::face::http::{HttpOptions, Server};
use skillvisor::host::{ADMIN_KEY_FILE, Host, HostOptions};
use skillvisor::model::{Code, Error};
use skillvisor::sandbox::compile_worker_main;

/// A host for skills: sandboxed WebAssembly tools for AI agents.
#[derive(Parser)]
#[command(version, after_help = "Exit codes: 0 success, 2 usage, 7 not available now, 70 internal.")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the HTTP API.
    Serve(Serve),
}

#[derive(clap::Args)]
struct Serve {
    /// Address to listen on; only loopback addresses, since this version has no TLS. Port 0 picks one.
    #[arg(long, env = "SKILLVISOR_LISTEN", default_value = "127.0.0.1:20128")]
    listen: SocketAddr,
    /// The one directory with everything the host keeps.
    #[arg(long, env = "SKILLVISOR_DATA_DIR", default_value = "skillvisor-data")]
    data_dir: PathBuf,
    /// Secret of the first admin key, at least 32 characters; one is made if none is given.
    #[arg(env = "SKILLVISOR_ADMIN_KEY", hide_env_values = true, long, hide = true)]
    admin_key: Option<String>,
    /// Largest component that may be uploaded, in bytes.
    #[arg(long, env = "SKILLVISOR_UPLOAD_MAX_BYTES", default_value_t = 64 << 20)]
    upload_max_bytes: u64,
    /// Print one JSON line on stdout when ready.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    // Before anything else: the worker puts its limits on a process that has done nothing yet.
    if arguments.next().is_some_and(|first| first == "compile-worker") {
        return compile_worker_main(arguments);
    }
    let Command::Serve(options) = Arguments::parse().command;
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal()).init();
    let result =
        tokio::runtime::Runtime::new().map_err(Error::internal).and_then(|runtime| runtime.block_on(serve(options)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error} ({})", error.code);
            ExitCode::from(error.code.row().exit)
        }
    }
}

async fn serve(serve: Serve) -> Result<(), Error> {
    if !serve.listen.ip().is_loopback() {
        return Err(Error::new(
            Code::Malformed,
            "listen must be a loopback address: keys may not cross a network without TLS",
        ));
    }
    let program = std::env::current_exe().map_err(Error::internal)?;
    let data_dir = std::path::absolute(&serve.data_dir).map_err(Error::internal)?;
    let host = Host::open(HostOptions { admin_key: serve.admin_key, ..HostOptions::new(&data_dir, program) }).await?;
    let server =
        Server::bind(host, HttpOptions { listen: serve.listen, max_upload_bytes: serve.upload_max_bytes }).await?;
    let url = server.url();
    let key = data_dir.join(ADMIN_KEY_FILE);
    let key = key.display();
    let _ = writeln!(
        std::io::stderr(),
        "skillvisor serves {url}, with its data in {}\n\n  Upload a skill:\n    curl -sS -H \"Authorization: Bearer $(cat {key})\" -H 'Content-Type: application/wasm' \\\n      --data-binary @skills/hello/hello.wasm '{url}/api/skills?name=hello&version=1.0.0'\n  Run it:\n    curl -sS -H \"Authorization: Bearer $(cat {key})\" {url}/api/skills/executions \\\n      -d '{{\"skillId\":\"hello@1.0.0\",\"args\":{{\"name\":\"Ada\"}}}}'\n",
        data_dir.display(),
    );
    if serve.json {
        let line = format!("{{\"event\":\"ready\",\"url\":\"{url}\"}}\n");
        std::io::stdout().write_all(line.as_bytes()).map_err(Error::internal)?;
    }
    server.run(stopped(), Duration::from_secs(10)).await;
    Ok(())
}

/// Comes back when the process is asked to end.
async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
}
