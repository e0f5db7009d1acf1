//! Outgoing HTTP: linked for every guest, granted to none yet.

use wasmtime_wasi_http::{Error, RequestOptions, Result, WasiBody, WasiHttpHooks};

use crate::model::{Denial, clip};

/// Denials kept for one execution; further ones say nothing new.
const MAX_DENIALS: usize = 20;
/// Most bytes of an address in a denial.
const MAX_ADDRESS: usize = 256;
/// Most bytes of a body that the host takes in one write; it holds two writes of each body.
const BODY_CHUNK: usize = 4 << 10;

/// Answers every request with the interface's own denial, and writes down what was asked.
#[derive(Debug, Default)]
pub(super) struct NoEgress {
    pub(super) denials: Vec<Denial>,
}

type Body = Box<dyn Future<Output = Result<(), Error>> + Send>;

impl WasiHttpHooks for NoEgress {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        _options: Option<RequestOptions>,
        _done: Body,
    ) -> Box<dyn Future<Output = Result<(http::Response<WasiBody>, Body)>> + Send> {
        let uri = request.uri();
        let (scheme, authority) = (uri.scheme_str().unwrap_or("https"), uri.authority());
        // Without the query: it may hold what is nobody's business.
        let host = authority.map_or("", |authority| authority.as_str().rsplit('@').next().unwrap_or(""));
        let mut host = host.to_owned();
        clip(&mut host, MAX_ADDRESS);
        let mut asked = format!("{} {scheme}://{host}{}", request.method(), uri.path());
        clip(&mut asked, MAX_ADDRESS);
        let denial = Denial {
            import: "wasi:http/outgoing-handler".into(),
            grant: format!("network: {scheme}://{host}"),
            fix: "this version of skillvisor grants no network access".into(),
            asked,
        };
        if self.denials.len() < MAX_DENIALS && !self.denials.contains(&denial) {
            self.denials.push(denial);
        }
        Box::new(async { Err(Error::HttpRequestDenied) })
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        BODY_CHUNK
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Empty};

    use super::*;

    #[test]
    fn a_denial_repeats_no_more_of_an_address_than_a_reader_wants() {
        let mut egress = NoEgress::default();
        let uri = format!("https://{0}/{0}", "x".repeat(5000));
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let request = http::Request::get(uri).body(body).unwrap();
        drop(egress.send_request(request, None, Box::new(async { Ok(()) })));
        let denial = &egress.denials[0];
        for text in [&denial.asked, &denial.grant] {
            assert!(text.len() <= MAX_ADDRESS + "network: https://".len(), "{} bytes", text.len());
        }
    }
}
