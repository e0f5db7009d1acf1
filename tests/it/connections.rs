use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use reqwest::Method;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::support::Host;

/// Raises this process' own limit and says how many connections it can have open to a host
/// with the same limit: one address has three of four places, which are three of four files.
fn most_connections() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    usize::try_from(maximum.unwrap_or(u64::MAX).min(1 << 20)).unwrap() * 9 / 16
}

fn address(url: &reqwest::Url) -> (String, u16) {
    (url.host_str().unwrap().to_owned(), url.port().unwrap())
}

#[tokio::test]
async fn ten_thousand_idle_connections_leave_room_for_a_request_and_for_memory() {
    let host = Host::start().with("echo").await;
    let wanted = 10_000.min(most_connections());
    assert!(wanted >= 500, "the limit on open files of this machine is too low for this test");
    let before = host.resident_mib();
    let url = host.request_as(None, Method::GET, "/").build().unwrap().url().clone();
    let opening = Instant::now();
    let connect = || tokio::net::TcpStream::connect(address(&url));
    let idle: Vec<_> = stream::iter(0..wanted).map(|_| connect()).buffer_unordered(1000).collect().await;
    let idle: Vec<_> = idle.into_iter().map(Result::unwrap).collect();
    println!("opened in {:?}", opening.elapsed());
    let began = Instant::now();
    assert_eq!(host.outcome("echo", json!({ "a": 1 }), json!({})).await, "success -");
    assert_eq!(host.get("/livez").await.status, 200);
    let after = host.resident_mib();
    println!(
        "{wanted} idle connections: {before} MiB before, {after} MiB with them, two requests in {:?}",
        began.elapsed()
    );
    assert!(after < before + 150, "{before} MiB before, {after} MiB with them");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // They were there all the time: none has been told anything.
    let silent = |stream: &tokio::net::TcpStream| {
        stream.try_read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    assert_eq!(idle.iter().filter(|stream| silent(stream)).count(), wanted);
}

/// A server that may have few files open. Killed when dropped.
struct Cramped {
    child: Child,
    url: reqwest::Url,
    _dir: tempfile::TempDir,
}

impl Cramped {
    /// `ulimit` is what a shell runs before the server.
    fn start(ulimit: &str) -> Self {
        Self::start_with(ulimit, &[])
    }

    fn start_with(ulimit: &str, arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", &format!("{ulimit} && exec \"$@\""), "sh", env!("CARGO_BIN_EXE_skillvisor")])
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(dir.path().join("data"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).expect("the program says that it is ready");
        Self { child, url: ready["url"].as_str().unwrap().parse().unwrap(), _dir: dir }
    }

    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap()
    }

    /// CPU time used so far, in clock ticks of 10 ms.
    fn ticks(&self) -> u64 {
        let stat = self.proc("stat");
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }
}

impl Drop for Cramped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_server_raises_its_limit_on_open_files_as_far_as_it_may() {
    let server = Cramped::start("ulimit -Sn 200 && ulimit -Hn 1000");
    let limits = server.proc("limits");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<_> = line.split_whitespace().filter(|word| word.bytes().all(|b| b.is_ascii_digit())).collect();
    assert_eq!(numbers, ["1000", "1000"]);
}

#[test]
fn connections_beyond_the_room_are_told_so_and_the_server_neither_spins_nor_stays_full() {
    let server = Cramped::start("ulimit -n 200");
    let places = 150;
    let share = places / 4 * 3;
    let mut held: Vec<_> =
        (0..places).map(|n| connect_from(if n < share { "127.0.0.1" } else { "127.0.0.3" }, &server.url)).collect();
    for _ in 0..300 {
        let mut refused = TcpStream::connect(address(&server.url)).unwrap();
        refused.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut said = String::new();
        refused.read_to_string(&mut said).unwrap();
        assert!(said.starts_with("HTTP/1.1 503 ") && said.contains("\"code\":\"overloaded\""), "{said}");
    }
    let before = server.ticks();
    std::thread::sleep(Duration::from_millis(500));
    assert!(server.ticks() - before < 20, "a full server uses a CPU");
    held.clear();
    // The places are free again once the server has seen that their clients left.
    let began = Instant::now();
    while !is_live(&server) {
        assert!(began.elapsed() < Duration::from_secs(60), "the server stays full");
        std::thread::yield_now();
    }
}

/// Whether a request is answered.
fn is_live(server: &Cramped) -> bool {
    let mut stream = TcpStream::connect(address(&server.url)).unwrap();
    let sent = stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let mut said = String::new();
    sent.is_ok() && stream.read_to_string(&mut said).is_ok() && said.starts_with("HTTP/1.1 200 ")
}

/// A connection from an address of this machine.
fn connect_from(source: &str, url: &reqwest::Url) -> TcpStream {
    let (host, port) = address(url);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{source}:0").parse().unwrap()).unwrap();
        socket.connect(format!("{host}:{port}").parse().unwrap()).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream
}

#[test]
fn one_address_cannot_lock_the_others_out_unless_it_is_a_proxys() {
    let ask = |url: &reqwest::Url| {
        let mut stream = connect_from("127.0.0.2", url);
        // A refusal closes the connection, whatever is being sent.
        let _ = stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let mut said = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(bytes @ 1..) = stream.read(&mut piece) {
            said.extend_from_slice(&piece[..bytes]);
        }
        String::from_utf8_lossy(&said).into_owned()
    };
    for (arguments, status) in [(&[][..], "HTTP/1.1 200 "), (&["--behind-proxy"], "HTTP/1.1 503 ")] {
        let server = Cramped::start_with("ulimit -n 200", arguments);
        let held: Vec<_> = (0..150).map(|_| connect_from("127.0.0.1", &server.url)).collect();
        let said = ask(&server.url);
        assert!(said.starts_with(status), "{arguments:?}: {said}");
        drop(held);
    }
}
