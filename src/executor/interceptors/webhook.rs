//! Webhooks: signed as Standard Webhooks says, sent through the egress guard under the network ceiling that
//! the key which set them up has now.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::access::Access;
use crate::egress::{Errand, Failure, Guard, Meter, Posting, Target};
use crate::model::{Clock, Error, InterceptorId, KeyId, OwnerId, SkillName};
use crate::secrets::{Secrets, SigningSecret};
use crate::store::WebhookSecret;

use super::contract::Trouble;

/// Most bytes of an answer.
pub(super) const MOST_ANSWER: u64 = 8 << 20;
/// Most bytes of an answer that says only that something was heard.
const MOST_ACKNOWLEDGEMENT: u64 = 64 << 10;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// A URL that was set up.
pub(super) struct Webhook {
    pub(super) id: InterceptorId,
    pub(super) owner: OwnerId,
    pub(super) target: Target,
    pub(super) registered_by: KeyId,
    pub(super) timeout: Duration,
    /// The only skills of whose runs it is told.
    pub(super) skills: Option<Vec<SkillName>>,
    /// What it is signed with, the newest first, sealed.
    pub(super) secrets: Vec<WebhookSecret>,
}

/// What sending takes.
#[derive(Clone)]
pub(super) struct Post {
    pub(super) guard: Arc<Guard>,
    pub(super) access: Arc<Access>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) clock: Clock,
}

/// A message: its id, which stays the same when it is sent again, and its body.
#[derive(Clone)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) body: Bytes,
}

/// Why a webhook that is only told has not heard.
pub(super) enum Unheard {
    /// Maybe later.
    Later(String),
    /// It wants to be told nothing any more.
    Gone,
}

impl Post {
    /// Asks a webhook about a run of `owner`, whose connections are used; gives its answer.
    pub(super) async fn ask(
        &self,
        (hook, owner): (&Webhook, &OwnerId),
        message: &Message,
        until: Instant,
    ) -> Result<Bytes, Trouble> {
        let mut sent = self.send((hook, owner), message, (until, MOST_ANSWER)).await;
        if matches!(sent, Err(Sending::Failed(Failure::Incomplete))) {
            // A connection that waited was closed on the other side. Who gets a message twice knows it by its id.
            sent = self.send((hook, owner), message, (until, MOST_ANSWER)).await;
        }
        match sent {
            Ok((status, body)) if (200..300).contains(&status) => Ok(body),
            Ok(_) => Err(Trouble::UNAVAILABLE),
            Err(Sending::Denied) => Err(Trouble::DENIED),
            Err(Sending::Failed(failure)) => Err(trouble(&failure)),
            Err(Sending::Unsigned(error)) => {
                tracing::error!(interceptor.id = %hook.id, "A webhook cannot be signed: {error:?}");
                Err(Trouble::FAILED)
            }
        }
    }

    /// Tells a webhook.
    pub(super) async fn tell(&self, hook: &Webhook, message: &Message) -> Result<(), Unheard> {
        let until = Instant::now() + hook.timeout;
        match self.send((hook, &hook.owner), message, (until, MOST_ACKNOWLEDGEMENT)).await {
            Ok((200..300, _)) => Ok(()),
            Ok((410, _)) => Err(Unheard::Gone),
            Ok((status, _)) => Err(Unheard::Later(format!("it answered with the status {status}"))),
            // It has heard, and talks too much.
            Err(Sending::Failed(Failure::ResponseBody(_))) => Ok(()),
            Err(Sending::Failed(failure)) => Err(Unheard::Later(failure.to_string())),
            Err(Sending::Denied) => {
                Err(Unheard::Later("the key that set it up is no longer valid or may not reach it".into()))
            }
            Err(Sending::Unsigned(error)) => {
                tracing::error!(interceptor.id = %hook.id, "A webhook cannot be signed: {error:?}");
                Err(Unheard::Later("it could not be signed".into()))
            }
        }
    }

    async fn send(
        &self,
        (hook, owner): (&Webhook, &OwnerId),
        message: &Message,
        (deadline, most): (Instant, u64),
    ) -> Result<(u16, Bytes), Sending> {
        let key = self.access.live(&hook.registered_by).ok_or(Sending::Denied)?;
        let headers = self.headers(hook, message).map_err(Sending::Unsigned)?;
        let posting = Posting {
            target: hook.target.clone(),
            rules: key.max_network(),
            headers,
            body: message.body.clone(),
            most,
        };
        let errand = Errand {
            owner: owner.clone(),
            deadline,
            connect_timeout: None,
            first_byte_timeout: None,
            between_bytes_timeout: None,
            most_body: most,
            meter: Meter::default(),
        };
        let posted = self.guard.post(posting, errand).await.map_err(Sending::Failed)?;
        Ok((posted.status.as_u16(), posted.body))
    }

    fn headers(&self, hook: &Webhook, message: &Message) -> Result<HeaderMap, Error> {
        let now = self.clock.now_ms();
        let seconds = now.div_euclid(1000);
        let mut signatures = Vec::new();
        for secret in hook.secrets.iter().filter(|secret| secret.until.is_none_or(|until| now < until)) {
            signatures.push(signature(&self.secrets.webhook_secret(secret)?, message, seconds));
        }
        let value = |text: &str| HeaderValue::from_str(text).map_err(Error::internal);
        Ok(HeaderMap::from_iter([
            (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (header::CONTENT_LENGTH, HeaderValue::from(message.body.len())),
            (header::USER_AGENT, HeaderValue::from_static(concat!("skillvisor/", env!("CARGO_PKG_VERSION")))),
            (ID, value(&message.id)?),
            (TIMESTAMP, HeaderValue::from(seconds)),
            (SIGNATURE, value(&signatures.join(" "))?),
        ]))
    }
}

enum Sending {
    Denied,
    Unsigned(Error),
    Failed(Failure),
}

fn trouble(failure: &Failure) -> Trouble {
    match failure {
        Failure::Unsafe(_) | Failure::Denied(_) | Failure::UsedUp | Failure::Prohibited(_) => Trouble::DENIED,
        Failure::LookupTimeout | Failure::ConnectTimeout | Failure::ReadTimeout | Failure::Late => Trouble::TIMEOUT,
        Failure::ResponseBody(_) | Failure::ResponseHead(_) | Failure::Protocol => Trouble::INVALID_ANSWER,
        _ => Trouble::UNAVAILABLE,
    }
}

/// `v1,` and the HMAC-SHA-256 of id, time and body.
fn signature(secret: &SigningSecret, message: &Message, seconds: i64) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(format!("{}.{seconds}.", message.id).as_bytes());
    context.update(&message.body);
    format!("v1,{}", STANDARD.encode(context.sign()))
}
