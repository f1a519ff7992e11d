//! Just enough of HTTP/1.1 (RFC 9112) to be asked for a page: one request of bounded length to a connection, within a
//! bounded time, on a thread of its own. Whatever else is sent is refused, and never reaches the server's shards.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The longest request: a browser's are not half of it.
const MOST_BYTES: usize = 8 << 10;
/// How long a request and its answer may take together.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that are answered at the same time; further ones are closed.
const MOST_AT_ONCE: usize = 8;
/// What is read of a peer that goes on sending, so that it gets to see the answer.
const MOST_LEFT_OVER_BYTES: usize = 64 << 10;

/// A page or why there is none.
pub struct Answer {
    /// The status, as `200 OK`.
    pub status: &'static str,
    /// What the body is.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
}

impl Answer {
    /// A page.
    pub fn page(content_type: &'static str, body: String) -> Self {
        Self { status: "200 OK", content_type, body }
    }

    /// Why there is none.
    pub fn refusal(status: &'static str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: format!("{status}\n") }
    }
}

/// Answers the path of a GET.
pub type Pages<S> = Arc<dyn Fn(&str, &S) -> Answer + Send + Sync>;

/// A connection of either kind.
pub trait Stream: Read + Write + Send + 'static {
    /// Bounds how long the next call may take.
    fn within(&self, time: Duration) -> io::Result<()>;

    /// Nothing more is sent.
    fn finish(&self) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn within(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }

    fn finish(&self) -> io::Result<()> {
        self.shutdown(std::net::Shutdown::Write)
    }
}

impl Stream for UnixStream {
    fn within(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }

    fn finish(&self) -> io::Result<()> {
        self.shutdown(std::net::Shutdown::Write)
    }
}

/// Where connections come from.
pub trait Listener: Send + 'static {
    /// What one is.
    type Stream: Stream;

    /// The next one.
    fn next(&self) -> io::Result<Self::Stream>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    fn next(&self) -> io::Result<TcpStream> {
        self.accept().map(|(stream, _)| stream)
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    fn next(&self) -> io::Result<UnixStream> {
        self.accept().map(|(stream, _)| stream)
    }
}

/// Answers connections for as long as the process lives.
pub fn serve<L: Listener>(listener: L, pages: Pages<L::Stream>) -> io::Result<()> {
    let accept = move || {
        let at_once = Arc::new(AtomicUsize::new(0));
        loop {
            match listener.next() {
                Ok(stream) => begin(stream, &pages, &at_once),
                // Out of descriptors, mostly: accepting again at once would only spin.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    };
    std::thread::Builder::new().name("monitor".into()).spawn(accept).map(drop)
}

/// One of those that are answered; given back when dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(at_once: &Arc<AtomicUsize>) -> Option<Self> {
        let place = Self(Arc::clone(at_once));
        (at_once.fetch_add(1, Relaxed) < MOST_AT_ONCE).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

fn begin<S: Stream>(mut stream: S, pages: &Pages<S>, at_once: &Arc<AtomicUsize>) {
    let Some(place) = Place::take(at_once) else { return };
    let pages = Arc::clone(pages);
    let answer = move || {
        // Nobody is there to be told what went wrong.
        let _ = converse(&mut stream, &*pages);
        drop(place);
    };
    let _ = std::thread::Builder::new().name("monitor-answer".into()).spawn(answer);
}

/// Takes one request and answers it.
fn converse<S: Stream>(stream: &mut S, pages: &(dyn Fn(&str, &S) -> Answer + Send + Sync)) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let request = read_request(stream, deadline)?;
    let (answer, with_body) = match parse(&request) {
        Ok(Request { path, head_only }) => (pages(path, stream), !head_only),
        Err(status) => (Answer::refusal(status), true),
    };
    let Answer { status, content_type, body } = answer;
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{allow}Cache-Control: no-store\r\n\
         Connection: close\r\n\r\n"
    );
    let whole = [head.as_bytes(), if with_body { body.as_bytes() } else { b"" }].concat();
    write_all(stream, &whole, deadline)?;
    stream.finish()?;
    read_away(stream, deadline)
}

/// The bytes up to the end of the head, or as many as one may have.
fn read_request(stream: &mut impl Stream, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while end_of_head(&request).is_none() && request.len() <= MOST_BYTES {
        stream.within(left(deadline)?)?;
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => request.extend(part.iter().take(count)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(request)
}

fn write_all(stream: &mut impl Stream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.within(left(deadline)?)?;
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Closing with bytes unread would take the answer away from the peer.
fn read_away(stream: &mut impl Stream, deadline: Instant) -> io::Result<()> {
    let (mut part, mut read) = ([0; 4096], 0);
    while read < MOST_LEFT_OVER_BYTES {
        stream.within(left(deadline)?.min(Duration::from_millis(500)))?;
        match stream.read(&mut part)? {
            0 => break,
            count => read += count,
        }
    }
    Ok(())
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

struct Request<'a> {
    path: &'a str,
    head_only: bool,
}

/// The request line of a whole head; the status that refuses it otherwise.
fn parse(request: &[u8]) -> Result<Request<'_>, &'static str> {
    const BAD: &str = "400 Bad Request";
    let Some(end) = end_of_head(request) else {
        return Err(if request.len() > MOST_BYTES { "431 Request Header Fields Too Large" } else { BAD });
    };
    let head = request.get(..end).and_then(|head| std::str::from_utf8(head).ok()).ok_or(BAD)?;
    let line = head.lines().next().ok_or(BAD)?;
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(BAD);
    };
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(if version.starts_with("HTTP/") { "505 HTTP Version Not Supported" } else { BAD });
    }
    if !matches!(method, "GET" | "HEAD") {
        return Err("405 Method Not Allowed");
    }
    let path = target.split('?').next().unwrap_or_default();
    if !path.starts_with('/') {
        return Err(BAD);
    }
    Ok(Request { path, head_only: method == "HEAD" })
}

fn end_of_head(request: &[u8]) -> Option<usize> {
    request.windows(4).position(|four| four == b"\r\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let pages: Pages<TcpStream> = Arc::new(|path, _| match path {
            "/page" => Answer::page("text/plain", "x".repeat(300_000)),
            _ => Answer::refusal("404 Not Found"),
        });
        serve(listener, pages).unwrap();
        address
    }

    /// All that is answered to these bytes.
    fn ask(address: std::net::SocketAddr, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // It may be refused before all is sent.
        let _ = stream.write_all(bytes);
        let _ = stream.finish();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn a_page_comes_whole_and_its_head_alone() {
        let address = server();
        let whole = ask(address, b"GET /page?x=1 HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, body) = whole.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("Content-Length: 300000"), "{head}");
        assert_eq!(body.len(), 300_000);
        let alone = ask(address, b"HEAD /page HTTP/1.0\r\n\r\n");
        assert!(alone.contains("Content-Length: 300000") && alone.ends_with("\r\n\r\n"));
    }

    #[test]
    fn what_is_no_request_for_a_page_is_refused() {
        let address = server();
        let long = [b"GET /page HTTP/1.1\r\nX: ", &[b'a'; 20_000][..]].concat();
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        let cases: [(&[u8], &str); 10] = [
            (b"GET /other HTTP/1.1\r\n\r\n", "404"),
            (b"POST /page HTTP/1.1\r\n\r\n", "405"),
            (b"GET /page HTTP/2\r\n\r\n", "505"),
            (b"GET /page\r\n\r\n", "400"),
            (b"GET  /page HTTP/1.1\r\n\r\n", "400"),
            (b"GET http://x/page HTTP/1.1\r\n\r\n", "400"),
            (b"\xff\xfe /page HTTP/1.1\r\n\r\n", "400"),
            (b"", "400"),
            (&long, "431"),
            (&bytes, "400"),
        ];
        for (sent, status) in cases {
            let answer = ask(address, sent);
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{:?}: {answer:.60}",
                String::from_utf8_lossy(sent)
            );
        }
    }

    #[test]
    fn who_says_nothing_or_says_it_slowly_is_let_go_and_in_nobodys_way() {
        let address = server();
        let mut slow = TcpStream::connect(address).unwrap();
        let silent: Vec<_> = (1..MOST_AT_ONCE - 1).map(|_| TcpStream::connect(address).unwrap()).collect();
        let began = Instant::now();
        assert!(ask(address, b"GET /page HTTP/1.1\r\n\r\n").contains("200 OK"), "there is room for one more");
        assert!(began.elapsed() < PATIENCE);
        let mut is_open = true;
        while is_open && began.elapsed() < 3 * PATIENCE {
            is_open = slow.write_all(b"G").is_ok();
            std::thread::sleep(Duration::from_millis(200));
        }
        assert!(!is_open, "a byte now and then does not keep it");
        for mut stream in silent {
            stream.set_read_timeout(Some(3 * PATIENCE)).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it is closed");
        }
    }
}
