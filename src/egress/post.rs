//! One `POST` of the host's own: to a URL that somebody set up, under that one's rules, without redirects.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};

use crate::model::{NetworkRule, OwnerId};

use super::failure::Failure;
use super::guard::{Admitted, Errand, Guard};
use super::rule::NetworkGrant;
use super::target::Target;

/// How long a look at a target may take.
const LOOK: Duration = Duration::from_secs(5);

/// What is sent.
#[derive(Clone, Debug)]
pub struct Posting {
    /// Where to.
    pub target: Target,
    /// What the sender may reach.
    pub rules: Vec<NetworkRule>,
    /// The head.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Most bytes of the answer.
    pub most: u64,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Posted {
    /// The status; one that sends on elsewhere is not followed.
    pub status: StatusCode,
    /// The whole body.
    pub body: Bytes,
}

impl Guard {
    /// Whether something may be posted to `target` now: by `rules`, and by where its name leads. Nothing is sent.
    ///
    /// # Errors
    ///
    /// Why not.
    pub async fn vet(&self, owner: &OwnerId, rules: Vec<NetworkRule>, target: Target) -> Result<(), Failure> {
        let admitted = self.admit_post(rules, target)?;
        let owner = self.pool.owner(owner);
        let look = self.addresses(&admitted.target().origin.host, &owner);
        tokio::time::timeout(LOOK, look).await.map_err(|_| Failure::LookupTimeout)?.map(drop)
    }

    /// Posts, and gives the whole answer.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub async fn post(self: &Arc<Self>, posting: Posting, errand: Errand) -> Result<Posted, Failure> {
        let Posting { target, rules, headers, body, most } = posting;
        let admitted = self.admit_post(rules, target)?;
        // What is sent is not what is answered, and has its own length.
        let errand = Errand { most_body: most.max(body.len() as u64), ..errand };
        let mut request = Request::new(Full::new(body).map_err(|never| match never {}).boxed_unsync());
        *request.headers_mut() = headers;
        let response = self.send(errand, admitted, request).await.map_err(|_| Failure::Incomplete)??;
        let (parts, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        if body.len() as u64 > most {
            return Err(Failure::ResponseBody(most));
        }
        Ok(Posted { status: parts.status, body })
    }

    fn admit_post(&self, rules: Vec<NetworkRule>, target: Target) -> Result<Admitted, Failure> {
        let everything = vec![NetworkRule::public()];
        let grant = NetworkGrant {
            manifest: everything.clone(),
            registrar: everything,
            caller: rules,
            ..NetworkGrant::default()
        };
        self.admit(&grant, &Method::POST, target)
    }
}
