//! HTTP requests by `wasi:http` 0.3: one, or several at one time.

wit_bindgen::generate!({ path: "wit", world: "async-fetch", generate_all });

use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use exports::examples::async_fetch::fetching::{Answer, Guest};
use wasi::http::client::send;
use wasi::http::types::{Fields, Method, Request, Response, Scheme};

/// A request that is under way.
type Waiting = Pin<Box<dyn Future<Output = Result<u16, String>>>>;

struct AsyncFetch;

impl Guest for AsyncFetch {
    async fn fetch(
        method: String,
        url: String,
        headers: Vec<(String, String)>,
        body: Option<String>,
    ) -> Result<Answer, String> {
        let response = sent(&method, &url, &headers, body).await?;
        read(response).await
    }

    async fn fetch_all(urls: Vec<String>) -> Vec<Result<u16, String>> {
        let mut waiting: Vec<Waiting> = Vec::new();
        for url in urls {
            waiting.push(Box::pin(async move {
                let response = sent("GET", &url, &[], None).await?;
                Ok(response.get_status_code())
            }));
        }
        all(waiting).await
    }
}

/// Sends a request, and waits for the head of its answer.
async fn sent(
    method: &str,
    url: &str,
    headers: &[(String, String)],
    body: Option<String>,
) -> Result<Response, String> {
    let fields = Fields::new();
    for (name, value) in headers {
        fields.append(name, value.as_bytes()).map_err(text)?;
    }
    if let Some(body) = &body {
        let length = body.len().to_string();
        fields
            .append("content-length", length.as_bytes())
            .map_err(text)?;
    }
    let (mut writer, reader) = wit_stream::new();
    let (trailers, no_trailers) = wit_future::new(|| Ok(None));
    let contents = body.is_some().then_some(reader);
    let (request, _transmitted) = Request::new(fields, contents, no_trailers, None);
    address(&request, method, url)?;
    if let Some(body) = body {
        wit_bindgen::spawn_local(async move {
            // Where the host takes no more of it, the answer says why.
            writer.write_all(body.into_bytes()).await;
            drop(writer);
            let _ = trailers.write(Ok(None)).await;
        });
    }
    send(request).await.map_err(text)
}

fn address(request: &Request, method: &str, url: &str) -> Result<(), String> {
    let (scheme, rest) = url.split_once("://").ok_or("the URL has no scheme")?;
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.into()),
    };
    let method = match method {
        "GET" => Method::Get,
        "POST" => Method::Post,
        other => Method::Other(other.into()),
    };
    let path = if path.is_empty() { "/" } else { path };
    let built = request
        .set_method(&method)
        .and_then(|()| request.set_scheme(Some(&scheme)))
        .and_then(|()| request.set_authority(Some(authority)))
        .and_then(|()| request.set_path_with_query(Some(path)));
    built.map_err(|()| text("HttpRequestUriInvalid"))
}

async fn read(response: Response) -> Result<Answer, String> {
    let status = response.get_status_code();
    let headers = strings(response.get_headers().copy_all());
    let (taken, result) = wit_future::new(|| Ok(()));
    drop(taken);
    let (body, trailers) = Response::consume_body(response, result);
    let body = String::from_utf8_lossy(&body.collect().await).into_owned();
    // What broke the body off is said here.
    let trailers = trailers.await.map_err(text)?;
    let trailers = trailers.map(|fields| strings(fields.copy_all()));
    Ok(Answer {
        status,
        headers,
        body,
        trailers: trailers.unwrap_or_default(),
    })
}

fn strings(fields: Vec<(String, Vec<u8>)>) -> Vec<(String, String)> {
    let lossy = |(name, value): (String, Vec<u8>)| (name, String::from_utf8_lossy(&value).into());
    fields.into_iter().map(lossy).collect()
}

/// Waits for all of them at once.
async fn all(mut waiting: Vec<Waiting>) -> Vec<Result<u16, String>> {
    let mut done: Vec<Option<_>> = waiting.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (one, done) in waiting.iter_mut().zip(&mut done) {
            if done.is_none()
                && let Poll::Ready(value) = one.as_mut().poll(cx)
            {
                *done = Some(value);
            }
        }
        if done.iter().all(Option::is_some) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

fn text(error: impl Debug) -> String {
    format!("{error:?}")
}

export!(AsyncFetch);
