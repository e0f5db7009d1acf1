//! An upstream that speaks TLS, notes what it is sent, and repeats the secret in many forms.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::task::AbortOnDropHandle;

use crate::tls::Authority;

/// A server on a port of its own. It ends when dropped.
pub(crate) struct Echo {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    _serving: AbortOnDropHandle<()>,
}

impl Echo {
    pub(crate) async fn start(authority: &Authority) -> Self {
        let chain = CertificateDer::pem_file_iter(authority.file("cert.pem")).unwrap().map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_file(authority.file("key.pem")).unwrap();
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&heads);
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, noted) = (acceptor.clone(), Arc::clone(&noted));
                tokio::spawn(async move { drop(serve(acceptor, stream, &noted).await) });
            }
        });
        Self { address, heads, _serving: AbortOnDropHandle::new(serving) }
    }

    pub(crate) fn origin(&self) -> String {
        format!("https://{}", self.address)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin())
    }

    /// What it was sent since it was last asked: the heads of requests.
    pub(crate) fn heads(&self) -> Vec<String> {
        std::mem::take(&mut self.heads.lock())
    }
}

async fn serve(acceptor: TlsAcceptor, stream: TcpStream, noted: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(acceptor.accept(stream).await?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        noted.lock().push(head.clone());
        answer(&mut stream, &head).await?;
    }
}

/// The secret, as it came.
fn secret(head: &str) -> String {
    let line = head.lines().find_map(|line| line.strip_prefix("authorization: Bearer "));
    line.unwrap_or("nothing").to_owned()
}

/// The forms in which servers repeat what they were sent.
pub(crate) fn forms(value: &str) -> Vec<String> {
    let json = serde_json::to_string(value).unwrap().trim_matches('"').to_owned();
    let percent: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let query = url::form_urlencoded::byte_serialize(value.as_bytes()).collect::<String>();
    let mut forms = vec![
        value.to_owned(),
        json.replace('/', "\\/"),
        json,
        value.bytes().map(|byte| format!("\\u{byte:04X}")).collect(),
        percent.to_lowercase(),
        percent,
        query,
        hex::encode(value),
        hex::encode_upper(value),
    ];
    forms.extend(base64(value));
    forms
}

/// What is looked for: the same, of base64 the digits that hold bits of the value and of nothing else.
pub(crate) fn traces(value: &str) -> Vec<String> {
    let whole = base64(value);
    let inner = whole.iter().map(|text| text[4..text.len() - 4].to_owned());
    forms(value).into_iter().filter(|form| !whole.contains(form)).chain(inner).collect()
}

fn base64(value: &str) -> Vec<String> {
    let all = ["", "u", "u:"]
        .into_iter()
        .flat_map(|before| [STANDARD, URL_SAFE].map(|engine| engine.encode(format!("{before}{value}"))));
    all.collect()
}

async fn answer(stream: &mut BufReader<TlsStream<TcpStream>>, head: &str) -> std::io::Result<()> {
    let value = secret(head);
    let path = head.split(' ').nth(1).unwrap_or_default();
    let basic = STANDARD.encode(format!("user:{value}"));
    let (begin, body) = ("HTTP/1.1 200 OK\r\n", format!("{}\n{basic}\n{head}", forms(&value).join("\n")));
    match path {
        "/whole" => {
            let fields = format!("x-plain: {value}\r\nx-base64: {basic}\r\nset-cookie: t={value}\r\n");
            let text = format!("{begin}{fields}content-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(text.as_bytes()).await?;
        }
        "/split" => {
            let fields = "trailer: x-after\r\ntransfer-encoding: chunked\r\n\r\n";
            stream.write_all(format!("{begin}{fields}").as_bytes()).await?;
            for byte in body.bytes() {
                stream.write_all(&[b'1', b'\r', b'\n', byte, b'\r', b'\n']).await?;
                stream.flush().await?;
            }
            stream.write_all(format!("0\r\nx-after: {value}\r\nx-basic: {basic}\r\n\r\n").as_bytes()).await?;
        }
        "/gzip" => {
            let text = format!("{begin}content-encoding: gzip\r\ncontent-length: {}\r\n\r\n{value}", value.len());
            stream.write_all(text.as_bytes()).await?;
        }
        "/wide" => {
            // In no form that is looked for; whoever reads it can undo it.
            let apart: String = value.chars().flat_map(|char| [char, '|']).collect();
            let text = format!("{begin}content-length: {}\r\n\r\n{apart}", apart.len());
            stream.write_all(text.as_bytes()).await?;
        }
        _ => {
            let text = format!("{begin}content-length: {}\r\n\r\nwell", 4);
            stream.write_all(text.as_bytes()).await?;
        }
    }
    stream.flush().await
}
