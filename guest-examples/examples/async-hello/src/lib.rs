//! An async function of its own: it waits for several things at one time.

wit_bindgen::generate!({ path: "wit", world: "async-hello", generate_all });

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use exports::examples::async_hello::greetings::Guest;
use wasi::clocks::monotonic_clock::wait_for;

struct AsyncHello;

impl Guest for AsyncHello {
    async fn greet_all(guests: Vec<(String, u32)>) -> Result<Vec<String>, String> {
        if guests.is_empty() {
            return Err("nobody to greet".into());
        }
        let mut waiting: Vec<Pin<Box<dyn Future<Output = String>>>> = Vec::new();
        for (name, milliseconds) in guests {
            waiting.push(Box::pin(async move {
                wait_for(u64::from(milliseconds) * 1_000_000).await;
                greeting(&name)
            }));
        }
        Ok(in_order_of_arrival(waiting).await)
    }

    fn greet(name: String) -> String {
        greeting(&name)
    }
}

fn greeting(name: &str) -> String {
    format!("Hello, {name}!")
}

/// Waits for all of them at once.
async fn in_order_of_arrival(
    mut waiting: Vec<Pin<Box<dyn Future<Output = String>>>>,
) -> Vec<String> {
    let mut arrived = Vec::new();
    poll_fn(|cx| {
        waiting.retain_mut(|one| match one.as_mut().poll(cx) {
            Poll::Ready(greeting) => {
                arrived.push(greeting);
                false
            }
            Poll::Pending => true,
        });
        if waiting.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    arrived
}

export!(AsyncHello);
