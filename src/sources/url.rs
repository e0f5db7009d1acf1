//! A file at a URL: a component, or a zipped skill folder.

use http::HeaderValue;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH};

use crate::egress::{Ask, Fetcher, Target};
use crate::model::{Code, Error};

use super::refused::{answered, at, refused, too_large};
use super::{Login, Opened, Suggested, sorted};

pub(super) async fn open(fetcher: &Fetcher, url: &str, (login, most): (Option<Login>, u64)) -> Result<Opened, Error> {
    let target = Target::parse(url).map_err(|why| at(Code::Malformed, format!("the source {why}")))?;
    let suggested = Suggested { name: stem(&target.to_string()), ..Suggested::default() };
    let mut ask = Ask::get(target, most).with(ACCEPT, HeaderValue::from_static("application/wasm, */*;q=0.5"));
    if let Some(login) = login {
        ask = ask.with(AUTHORIZATION, login.header()?);
    }
    let fetched = fetcher.fetch(ask).await.map_err(|error| refused(&error))?;
    if !fetched.status().is_success() {
        return Err(answered(fetched.status(), &fetched.target.origin(), "such file"));
    }
    let announced = fetched.header(CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    if announced.is_some_and(|length| length > most) {
        return Err(too_large(most));
    }
    let (is_archive, body) = sorted(fetched).await?;
    Ok(Opened { manifest_digest: None, digest: None, suggested, is_archive, body })
}

/// `hello` of `…/hello.wasm`.
fn stem(path: &str) -> Option<String> {
    let name = path.rsplit('/').next()?.strip_suffix(".wasm")?;
    Some(name.replace('_', "-"))
}
