//! Answers a POST with what it says, in capitals, and while it still reads it.

wit_bindgen::generate!({ path: "wit", world: "async-handler", generate_all });

use exports::wasi::http::handler::Guest;
use wasi::http::types::{ErrorCode, Fields, Method, Request, Response};

struct AsyncHandler;

impl Guest for AsyncHandler {
    async fn handle(request: Request) -> Result<Response, ErrorCode> {
        let is_post = matches!(request.get_method(), Method::Post);
        let (read, result) = wit_future::new(|| Ok(()));
        drop(read);
        let (mut body, _trailers) = Request::consume_body(request, result);
        let headers = Fields::new();
        let _ = headers.append("content-type", b"text/plain");
        let (mut writer, reader) = wit_stream::new();
        let (trailers, no_trailers) = wit_future::new(|| Ok(None));
        let (response, _transmitted) = Response::new(headers, Some(reader), no_trailers);
        if !is_post {
            let _ = response.set_status_code(405);
        }
        wit_bindgen::spawn_local(async move {
            loop {
                let (status, bytes) = body.read(Vec::with_capacity(4096)).await;
                if bytes.is_empty() && !matches!(status, wit_bindgen::StreamResult::Complete(_)) {
                    break;
                }
                writer.write_all(bytes.to_ascii_uppercase()).await;
            }
            drop(writer);
            let _ = trailers.write(Ok(None)).await;
        });
        Ok(response)
    }
}

export!(AsyncHandler);
