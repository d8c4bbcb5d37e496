//! As much of HTTP/1.1 as a scraper needs: a GET, an answer, and the end of the connection (RFC 9112).

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of a request's header.
const HEAD_MAX: u64 = 8 << 10;

/// Clients at once at a port.
const CLIENTS_MAX: usize = 8;
/// How long a client may keep silent.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status with its words, such as `200 OK`.
    pub status: &'static str,
    /// Media type of the body.
    pub media: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Words with a status.
    pub fn text(status: &'static str, body: &str) -> Answer {
        Answer { status, media: "text/plain; charset=utf-8", body: body.as_bytes().to_vec() }
    }
}

/// The path of a request line, if it is one of HTTP.
pub fn target(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    version.starts_with("HTTP/1.").then_some((method, target))
}

/// Reads what follows the request line and answers what `answer` makes of the path.
///
/// # Errors
/// The connection's; a header that is too long.
pub fn answer(
    line: &str,
    rest: &mut impl BufRead,
    out: &mut impl Write,
    answer: impl FnOnce(&str) -> Answer,
) -> io::Result<()> {
    let Some((method, target)) = target(line) else {
        return write(out, false, &Answer::text("400 Bad Request", "not HTTP/1.1\n"));
    };
    let mut rest = io::Read::take(&mut *rest, HEAD_MAX);
    let mut header = Vec::new();
    loop {
        header.clear();
        let len = rest.read_until(b'\n', &mut header)?;
        if matches!(&header[..], b"\r\n" | b"\n") {
            break;
        }
        if len == 0 || !header.ends_with(b"\n") {
            let status = "431 Request Header Fields Too Large";
            return write(out, false, &Answer::text(status, "the header does not end\n"));
        }
    }
    let path = target.split('?').next().unwrap_or(target);
    match method {
        "GET" => write(out, false, &answer(path)),
        "HEAD" => write(out, true, &answer(path)),
        _ => write(out, false, &Answer::text("405 Method Not Allowed", "GET only\n")),
    }
}

/// Answers at a TCP port, a thread a client and few of them at a time, for ever.
///
/// # Errors
/// The listener is broken.
pub fn serve(
    listener: &TcpListener,
    page: impl Fn(&str) -> Answer + Send + Sync + 'static,
) -> io::Result<()> {
    let (page, clients) = (Arc::new(page), Arc::new(()));
    loop {
        let (stream, _) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
            // A client that went, or no descriptors for now.
            Err(_) => {
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        if Arc::strong_count(&clients) > CLIENTS_MAX {
            continue;
        }
        let (page, place) = (page.clone(), clients.clone());
        let serve = move || {
            let _place = place;
            // A client that is slow or talks nonsense loses its connection and nothing else.
            let _ = one(&stream, &*page);
        };
        let _ = fusewire_device::thread::spawn("http", serve);
    }
}

fn one(stream: &TcpStream, page: &dyn Fn(&str) -> Answer) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut reader, mut line) = (BufReader::new(stream), String::new());
    io::Read::take(&mut reader, HEAD_MAX).read_line(&mut line)?;
    let mut out: &TcpStream = stream;
    answer(line.trim_end(), &mut reader, &mut out, page)
}

fn write(out: &mut impl Write, head_only: bool, answer: &Answer) -> io::Result<()> {
    let Answer { status, media, body } = answer;
    let len = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n"
    );
    out.write_all(head.as_bytes())?;
    if !head_only {
        out.write_all(body)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(request: &str) -> String {
        let mut rest = io::Cursor::new(request.as_bytes());
        let mut line = String::new();
        rest.read_line(&mut line).unwrap();
        let mut out = Vec::new();
        let _ = answer(line.trim_end(), &mut rest, &mut out, |path| Answer::text("200 OK", path));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_get_is_answered_and_nothing_else() {
        let got = ask("GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            got.starts_with("HTTP/1.1 200 OK\r\n") && got.ends_with("\r\n\r\n/metrics"),
            "{got}"
        );
        assert!(got.contains("Content-Length: 8\r\n"));
        assert!(ask("HEAD / HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(ask("POST / HTTP/1.1\r\n\r\n").contains(" 405 "));
        assert!(ask("nonsense\r\n\r\n").contains(" 400 "));
        assert!(ask("GET / HTTP/1.1\r\nHost").contains(" 431 "));
        let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(9000));
        assert!(ask(&long).contains(" 431 "));
    }
}
