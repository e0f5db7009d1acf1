//! What the skills for the web share: one request within bounds, and text from what came.

mod clock;
mod coding;
mod refusal;
mod request;
mod text;

pub use clock::Deadline;
pub use refusal::Refusal;
pub use request::{Request, Response, send};
pub use text::{Text, decode};
pub use url::Url;

/// An address that a request can go to.
pub fn parse_url(text: &str) -> Result<Url, Refusal> {
    let bad = |why: &str| Refusal::new("invalid-url", why);
    let url = Url::parse(text.trim())
        .map_err(|error| bad(&format!("the URL cannot be read: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("the URL must begin with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("the URL must have no user name and no password in it"));
    }
    Ok(url)
}
