//! Requests and responses of HTTP, as far as an exporter needs them.

/// Longest request line and headers that are read.
pub const HEAD_BYTES_MAX: usize = 8 << 10;
/// Longest method that exists is far below this.
const METHOD_BYTES_MAX: usize = 16;

/// What a caller wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// `GET` and the like.
    pub method: &'a str,
    /// What it wants, without a query.
    pub path: &'a str,
}

/// The request line makes no sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// Whether these bytes hold a request line and all headers.
pub fn is_complete(head: &[u8]) -> bool {
    let ends = |end: &[u8]| head.windows(end.len()).any(|window| window == end);
    ends(b"\r\n\r\n") || ends(b"\n\n")
}

/// The request in these bytes. Headers are not looked at: nothing depends on them.
///
/// # Errors
/// [`Malformed`] for anything but a line of method, path and version 1 of HTTP.
pub fn parse_request(head: &[u8]) -> Result<Request<'_>, Malformed> {
    let line = head.split(|&byte| byte == b'\n').next().ok_or(Malformed)?;
    let line = std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line)).map_err(|_| Malformed)?;
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Malformed);
    };
    let is_method = (1..=METHOD_BYTES_MAX).contains(&method.len())
        && method.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_target = target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_method || !is_target || !matches!(version, "HTTP/1.0" | "HTTP/1.1") {
        return Err(Malformed);
    }
    Ok(Request { method, path: target.split('?').next().unwrap_or(target) })
}

/// What is at a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    /// Its kind, as headers say it.
    pub content_type: &'static str,
    /// All of it; an error is what is wrong with it for now, in a sentence.
    pub body: Result<String, String>,
}

impl Content {
    /// Numbers for Prometheus.
    pub fn metrics(body: String) -> Self {
        Self { content_type: crate::prometheus::CONTENT_TYPE, body: Ok(body) }
    }
}

/// What a caller gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    status: &'static str,
    content_type: &'static str,
    body: String,
    /// Whether the caller asked for the headers only.
    is_head: bool,
}

const PAGE_POLICY: &str = "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'\r\n";
const TEXT: &str = "text/plain; charset=utf-8";

impl Response {
    fn of(content: Content, is_head: bool) -> Self {
        match content.body {
            Ok(body) => Self { status: "200 OK", content_type: content.content_type, body, is_head },
            Err(why) => Self { is_head, ..Self::problem("503 Service Unavailable", &format!("{why}\n")) },
        }
    }

    /// A path with nothing at it.
    pub fn not_found() -> Self {
        Self::problem("404 Not Found", "there is nothing here; metrics for Prometheus are at /metrics\n")
    }

    /// Anything else than reading.
    pub fn not_allowed() -> Self {
        Self::problem("405 Method Not Allowed", "only GET and HEAD\n")
    }

    /// Not HTTP.
    pub fn malformed() -> Self {
        Self::problem("400 Bad Request", "this is no request\n")
    }

    /// More headers than anybody needs.
    pub fn too_large() -> Self {
        Self::problem("431 Request Header Fields Too Large", "the request is too long\n")
    }

    fn problem(status: &'static str, text: &str) -> Self {
        Self { status, content_type: TEXT, body: text.into(), is_head: false }
    }

    /// As it goes over the wire.
    pub fn bytes(&self) -> Vec<u8> {
        let Self { status, content_type, body, is_head } = self;
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        // Pages bring all that they need, and are nobody's frame.
        let policy = if content_type.starts_with("text/html") { PAGE_POLICY } else { "" };
        let head = format!(
            "HTTP/1.0 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nX-Content-Type-Options: nosniff\r\n{allow}{policy}Connection: close\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), if *is_head { b"" } else { body.as_bytes() }].concat()
    }
}

/// The response to a request; `content` makes what is at a path, and is called only for requests that are whole.
pub fn respond(head: &[u8], content: impl FnOnce(&str) -> Option<Content>) -> Response {
    match parse_request(head) {
        _ if !is_complete(head) && head.len() >= HEAD_BYTES_MAX => Response::too_large(),
        Err(Malformed) => Response::malformed(),
        Ok(_) if !is_complete(head) => Response::malformed(),
        Ok(Request { method: method @ ("GET" | "HEAD"), path }) => match content(path) {
            Some(content) => Response::of(content, method == "HEAD"),
            None => Response::not_found(),
        },
        Ok(_) => Response::not_allowed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn metrics(text: &str) -> impl FnOnce(&str) -> Option<Content> {
        move |path| (path == "/metrics").then(|| Content::metrics(text.into()))
    }

    fn status(head: &str) -> &'static str {
        respond(head.as_bytes(), metrics("up 1\n")).status
    }

    #[test]
    fn what_is_missing_for_now_is_said() {
        let silent = |_: &str| Some(Content { content_type: TEXT, body: Err("no answer".into()) });
        let bytes = respond(b"GET /numbers HTTP/1.1\r\n\r\n", silent).bytes();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("HTTP/1.0 503 ") && text.ends_with("no answer\n"), "{text}");
    }

    #[test]
    fn only_metrics_are_there() {
        assert_eq!(status("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), "200 OK");
        assert_eq!(status("GET /metrics?name[]=a HTTP/1.0\n\n"), "200 OK");
        for path in ["/", "/metrics/", "/../metrics", "//metrics"] {
            assert_eq!(status(&format!("GET {path} HTTP/1.1\r\n\r\n")), "404 Not Found", "{path}");
        }
        assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), "405 Method Not Allowed");
    }

    #[test]
    fn what_is_no_request_is_called_so() {
        for head in [
            "",
            "\r\n\r\n",
            "GET /metrics HTTP/1.1\r\nHost: cut",
            "GET /metrics\r\n\r\n",
            "GET /metrics HTTP/2\r\n\r\n",
            "GET metrics HTTP/1.1\r\n\r\n",
            "GET  /metrics HTTP/1.1\r\n\r\n",
            "get /metrics HTTP/1.1\r\n\r\n",
            "GET /metrics\u{9b} HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(status(head), "400 Bad Request", "{head:?}");
        }
        assert_eq!(status(&"GET ".repeat(HEAD_BYTES_MAX)), "431 Request Header Fields Too Large");
    }

    #[test]
    fn the_length_is_that_of_the_body() {
        let response = |head: &str| respond(head.as_bytes(), metrics("µ 1\n")).bytes();
        let (got, headers) = (response("GET /metrics HTTP/1.0\n\n"), response("HEAD /metrics HTTP/1.0\n\n"));
        let got = String::from_utf8(got).unwrap();
        assert!(got.starts_with("HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{got}");
        assert!(got.contains("Content-Length: 5\r\n") && got.ends_with("\r\n\r\nµ 1\n"), "{got}");
        assert_eq!(String::from_utf8(headers).unwrap() + "µ 1\n", got);
    }

    proptest! {
        /// Whatever comes, there is one well-formed response, and metrics only for who asked for them.
        #[test]
        fn hostile_bytes_get_a_response(head in proptest::collection::vec(any::<u8>(), 0..300)) {
            check(&head);
        }

        /// The same for requests that were damaged.
        #[test]
        fn damaged_requests_get_a_response(
            changes in proptest::collection::vec((0usize..64, any::<u8>()), 0..4),
            cut in 0usize..64,
        ) {
            let mut head = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9464\r\nAccept: */*\r\n\r\n".to_vec();
            for (at, byte) in changes {
                let at = at % head.len();
                head[at] = byte;
            }
            check(&head);
            head.truncate(cut);
            check(&head);
        }
    }

    fn check(head: &[u8]) {
        let mut is_asked = false;
        let response = respond(head, |path| {
            is_asked = path == "/metrics";
            is_asked.then(|| Content::metrics("up 1\n".into()))
        });
        assert_eq!(is_asked, response.status == "200 OK");
        assert!(!is_asked || (is_complete(head) && head.windows(8).any(|part| part == b"/metrics")));
        let bytes = response.bytes();
        assert!(bytes.starts_with(b"HTTP/1.0 ") && is_complete(&bytes));
    }
}
