use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::slow_clients::{AT_LAST, NEVER, SHORT, Serving};
use skillvisor::face::http::Pace;

/// What an HTTP/2 client says first, with the one setting of how many bytes it takes of each answer.
fn hello(window: u32) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend_from_slice(&frame(4, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat()));
    bytes
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `GET /openapi.json`, whole and with END_STREAM.
fn get(stream: u32) -> Vec<u8> {
    let path = b"/openapi.json";
    let fields = [&[0x82, 0x86, 0x04, path.len() as u8][..], path, &[0x41, 1, b'x']].concat();
    frame(1, 5, stream, &fields)
}

fn pace(answer_pause: Duration) -> Pace {
    Pace { head: NEVER, body_pause: NEVER, body_grace: NEVER, body_bytes_per_second: 1, answer_pause }
}

#[tokio::test]
async fn a_client_that_asks_on_and_on_and_reads_nothing_loses_the_connection() {
    let serving = Serving::with(pace(SHORT)).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut client = socket.connect(serving.address).await.unwrap();
    let ask = async {
        loop {
            if let Err(error) = client.write_all(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n").await {
                return error.kind();
            }
        }
    };
    let ended = tokio::time::timeout(AT_LAST, ask).await.expect("the server still holds the connection");
    assert!(matches!(ended, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::TimedOut), "{ended}");
    assert!(serving.is_well().await);
}

#[tokio::test]
async fn a_client_that_takes_too_little_of_its_answers_over_http2_loses_the_connection() {
    let serving = Serving::with(pace(SHORT)).await;
    // At 20,000 bytes, one piece leaves and the next does not.
    for window in [0, 1, 20_000] {
        let mut client = TcpStream::connect(serving.address).await.unwrap();
        client.write_all(&hello(window)).await.unwrap();
        for stream in 0..100 {
            client.write_all(&get(2 * stream + 1)).await.unwrap();
        }
        let mut said = Vec::new();
        let read = tokio::time::timeout(AT_LAST, client.read_to_end(&mut said)).await;
        assert!(read.is_ok(), "the server still holds 100 answers at a window of {window}");
        assert!(serving.is_well().await);
    }
}

/// Reads frames until the answer on this stream has come whole; says how many bytes it has.
async fn answer(client: &mut TcpStream, wanted: u32) -> usize {
    let mut bytes = 0;
    loop {
        let mut head = [0; 9];
        client.read_exact(&mut head).await.expect("the connection stands");
        let [a, b, c, kind, flags, stream @ ..] = head;
        let length = u32::from_be_bytes([0, a, b, c]);
        client.read_exact(&mut vec![0; length as usize]).await.unwrap();
        if kind == 0 && length > 0 {
            // What was taken is given back, for all streams together.
            client.write_all(&frame(8, 0, 0, &length.to_be_bytes())).await.unwrap();
            bytes += length as usize;
        }
        if kind <= 1 && flags & 1 == 1 && u32::from_be_bytes(stream) == wanted {
            return bytes;
        }
    }
}

#[tokio::test]
async fn a_client_that_takes_its_answers_keeps_its_connection() {
    let serving = Serving::with(pace(SHORT)).await;
    let whole = reqwest::get(format!("http://{}/openapi.json", serving.address)).await.unwrap().bytes().await.unwrap();
    // As large as the answer and no larger, or far larger.
    for window in [whole.len() as u32, 1 << 24] {
        let mut client = TcpStream::connect(serving.address).await.unwrap();
        client.write_all(&hello(window)).await.unwrap();
        client.write_all(&frame(8, 0, 0, &(1_u32 << 24).to_be_bytes())).await.unwrap();
        for stream in [1, 3, 5] {
            client.write_all(&get(stream)).await.unwrap();
            assert_eq!(answer(&mut client, stream).await, whole.len());
            // Several times as long as a stall would be: nothing to take is no stall.
            tokio::time::sleep(5 * SHORT).await;
        }
    }
    let mut client = TcpStream::connect(serving.address).await.unwrap();
    for _ in 0..3 {
        client.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut said = [0; 15];
        client.read_exact(&mut said).await.expect("the connection stands");
        assert_eq!(&said[9..], b"200 OK");
        while client.try_read(&mut [0; 4096]).is_ok() {}
        tokio::time::sleep(5 * SHORT).await;
        while client.try_read(&mut [0; 4096]).is_ok() {}
    }
}

#[tokio::test]
async fn a_client_that_asks_nothing_over_http2_loses_the_connection_also_when_it_answers_pings() {
    let serving = Serving::with(Pace { head: SHORT, ..pace(NEVER) }).await;
    for requests in [&[][..], &[1], &[1, 3]] {
        let mut client = TcpStream::connect(serving.address).await.unwrap();
        client.write_all(&hello(1 << 24)).await.unwrap();
        client.write_all(&frame(8, 0, 0, &(1_u32 << 24).to_be_bytes())).await.unwrap();
        for stream in requests {
            client.write_all(&get(*stream)).await.unwrap();
            assert!(answer(&mut client, *stream).await > 0);
        }
        let pings = tokio::time::timeout(AT_LAST, answered_pings(&mut client)).await;
        assert!(pings.is_ok(), "the server still holds a connection after {requests:?}");
        assert!(serving.is_well().await);
    }
}

/// Answers pings until the connection ends; says how many there were.
async fn answered_pings(client: &mut TcpStream) -> usize {
    let mut pings = 0;
    loop {
        let mut head = [0; 9];
        if client.read_exact(&mut head).await.is_err() {
            return pings;
        }
        let [a, b, c, kind, flags, ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        if client.read_exact(&mut payload).await.is_err() {
            return pings;
        }
        if kind == 6 && flags & 1 == 0 {
            pings += 1;
            if client.write_all(&frame(6, 1, 0, &payload)).await.is_err() {
                return pings;
            }
        }
    }
}
