//! The load generator: connections that each keep one request under way.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::{Connection, Expected};
use crate::histogram::Histogram;

/// A server that does not answer for so long is broken.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// A connection gives up after so many wrong answers.
const ERRORS_PER_CONNECTION: u64 = 100;

/// One request, and what the right answer looks like.
pub struct Work {
    pub address: SocketAddr,
    pub request: Vec<u8>,
    pub expected: Expected,
}

/// What became of a load.
pub struct Load {
    pub elapsed: Duration,
    /// Latencies of right answers.
    pub latency: Histogram,
    pub errors: u64,
    pub first_error: Option<String>,
}

impl Load {
    fn new() -> Self {
        Self { elapsed: Duration::ZERO, latency: Histogram::new(), errors: 0, first_error: None }
    }

    pub fn rps(&self) -> f64 {
        self.latency.total() as f64 / self.elapsed.as_secs_f64()
    }

    fn note(&mut self, error: &anyhow::Error) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| format!("{error:#}"));
    }
}

/// Opened connections, each of which has had one right answer.
pub struct Ready {
    work: Rc<Work>,
    connections: Vec<Connection>,
}

/// Opens `count` connections and checks the first answer on each as a whole.
pub async fn open(work: &Rc<Work>, count: usize) -> Result<Ready> {
    let mut connections = Vec::with_capacity(count);
    for _ in 0..count {
        let checked = timeout(ANSWER_WITHIN, checked_connection(work)).await;
        connections.push(checked.context("no answer")??);
    }
    Ok(Ready { work: Rc::clone(work), connections })
}

async fn checked_connection(work: &Work) -> Result<Connection> {
    let mut connection = Connection::open(work.address).await?;
    let (response, bytes) = connection.exchange(&work.request).await?;
    work.expected.check(&response, bytes)?;
    Ok(connection)
}

impl Ready {
    /// Loads the server for `length`.
    pub async fn run(self, length: Duration) -> Result<Load> {
        let load = Rc::new(RefCell::new(Load::new()));
        let mut running = JoinSet::new();
        let start = Instant::now();
        for connection in self.connections {
            let work = Rc::clone(&self.work);
            running.spawn_local(keep_busy(connection, work, start + length, Rc::clone(&load)));
        }
        let ended = timeout(length + ANSWER_WITHIN, running.join_all()).await;
        ended.context("a server stopped answering")?;
        let elapsed = start.elapsed();
        let load = load.replace(Load::new());
        Ok(Load { elapsed, ..load })
    }
}

async fn keep_busy(mut connection: Connection, work: Rc<Work>, end: Instant, load: Rc<RefCell<Load>>) {
    let mut errors = 0;
    let mut sent = Instant::now();
    while sent < end && errors < ERRORS_PER_CONNECTION {
        let answered = match connection.exchange(&work.request).await {
            Ok((response, bytes)) => work.expected.glance(&response, bytes),
            Err(error) => {
                match Connection::open(work.address).await {
                    Ok(new) => connection = new,
                    Err(_) => errors = ERRORS_PER_CONNECTION,
                }
                Err(error)
            }
        };
        let now = Instant::now();
        match answered {
            Ok(()) => load.borrow_mut().latency.record(now - sent),
            Err(error) => {
                load.borrow_mut().note(&error);
                errors += 1;
            }
        }
        sent = now;
    }
}
