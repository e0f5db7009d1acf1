//! What webhooks are signed with: made here, sealed on the disk, opened to sign.

use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::model::{Error, InterceptorId};
use crate::store::WebhookSecret;

use super::Secrets;
use super::seal::cipher;

/// What stands before such a secret where it is shown (Standard Webhooks).
const PREFIX: &str = "whsec_";
/// Bytes of one.
const BYTES: usize = 32;

/// What a webhook is signed with. It shows itself to nobody.
pub struct SigningSecret(Zeroizing<Vec<u8>>);

impl SigningSecret {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// As its owner keeps it: `whsec_` and base64.
    pub fn shown(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{PREFIX}{}", STANDARD.encode(&*self.0)))
    }
}

impl Secrets {
    /// A new secret for a webhook, and the same sealed.
    ///
    /// # Errors
    ///
    /// `unavailable` if the key cannot be used; `internal` if the machine has no random numbers.
    pub fn new_webhook_secret(
        &self,
        interceptor: InterceptorId,
        version: u32,
    ) -> Result<(SigningSecret, WebhookSecret), Error> {
        let mut bytes = Zeroizing::new(vec![0; BYTES]);
        getrandom::fill(&mut bytes).map_err(|error| Error::internal(error.to_string()))?;
        let key = self.key_to_seal()?;
        let mut text = Zeroizing::new(Vec::with_capacity(BYTES + AES_256_GCM_SIV.tag_len()));
        text.extend_from_slice(&bytes);
        let sealing = cipher(&key)?.seal_in_place_append_tag(Aad::from(context(interceptor, version)), &mut *text);
        let nonce = *sealing.map_err(|_| failed("sealed"))?.as_ref();
        let sealed =
            WebhookSecret { interceptor, version, key_id: key.id(), nonce, sealed: text.to_vec(), until: None };
        Ok((SigningSecret(bytes), sealed))
    }

    /// Opens a secret of a webhook.
    ///
    /// # Errors
    ///
    /// `internal` if its row is not as it was, or the key is another one.
    pub fn webhook_secret(&self, secret: &WebhookSecret) -> Result<SigningSecret, Error> {
        let key = self.key.read().as_ref().map(Arc::clone).ok_or_else(|| failed("opened"))?;
        let mut sealed = Zeroizing::new(secret.sealed.clone());
        let nonce = Nonce::assume_unique_for_key(secret.nonce);
        let context = Aad::from(context(secret.interceptor, secret.version));
        let opened = cipher(&key)?.open_in_place(nonce, context, &mut sealed).map_err(|_| failed("opened"))?;
        Ok(SigningSecret(Zeroizing::new(opened.to_vec())))
    }
}

/// What a secret is bound to; begins otherwise than what stored secrets are bound to.
fn context(interceptor: InterceptorId, version: u32) -> Vec<u8> {
    let mut context = b"skillvisor webhook secret 1".to_vec();
    context.extend_from_slice(interceptor.as_bytes());
    context.extend_from_slice(&version.to_be_bytes());
    context
}

fn failed(what: &str) -> Error {
    Error::internal(format!("the secret of a webhook could not be {what}; its row or the key is damaged"))
}
