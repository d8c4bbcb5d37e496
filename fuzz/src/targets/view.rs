//! The live view, from both sides: a client that asks anything, and a process that answers anything. A request
//! means what it says or is refused; HTTP has one answer with a length that is right; and whatever names a report
//! holds, its Prometheus text is one.

use std::io::{BufRead, BufReader};

use fusewire_view::http::{self, Answer};
use fusewire_view::request::{self, Request};
use fusewire_view::{Report, prometheus};

/// Runs one input: who speaks, and then what.
pub fn run(data: &[u8]) {
    let Some((side, bytes)) = data.split_first() else { return };
    match side & 1 {
        0 => ask(bytes),
        _ => answer(bytes),
    }
}

fn ask(bytes: &[u8]) {
    let mut reader = BufReader::new(bytes);
    let line = request::read(&mut reader).expect("memory can be read");
    let Ok(request) = Request::parse(&line) else { return };
    if request != Request::Http {
        let again = request.to_string();
        assert_eq!(Request::parse(&again), Ok(request), "{line:?}");
        return;
    }
    let mut out = Vec::new();
    let page = |path: &str| {
        assert!(!path.contains(['?', ' ']));
        Answer::text("200 OK", path)
    };
    http::answer(&line, &mut reader, &mut out, page).expect("memory can be written");
    let mut rest = &out[..];
    let (mut header, mut len) = (String::new(), None);
    while rest.read_line(&mut header).expect("a header in letters") > 0 && header != "\r\n" {
        assert!(header.ends_with("\r\n"), "{header:?}");
        if let Some(value) = header.strip_prefix("Content-Length: ") {
            len = Some(value.trim_end().parse::<usize>().expect("a length"));
        }
        header.clear();
    }
    let len = len.expect("a length");
    assert!(rest.len() == len || rest.is_empty() && line.starts_with("HEAD "));
}

fn answer(bytes: &[u8]) {
    let Ok(report) = serde_json::from_slice::<Report>(bytes) else { return };
    let text = prometheus::text(&[report]);
    for line in text.lines().filter(|line| !line.starts_with("# ")) {
        let (name, rest) = line.split_once('{').expect("labels");
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        assert!(name.starts_with("fusewire_") && name.chars().all(is_name), "{line}");
        let mut rest = rest;
        loop {
            let (label, value) = rest.split_once("=\"").expect("a label");
            assert!(label.chars().all(is_name), "{line}");
            rest = after_string(value).unwrap_or_else(|| panic!("a value without an end: {line}"));
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => break,
            }
        }
        let value = rest.strip_prefix("} ").expect("a value behind the labels");
        assert!(value.parse::<u64>().is_ok(), "{line}");
    }
}

/// What follows the quotation mark that ends a value.
fn after_string(text: &str) -> Option<&str> {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => assert!(matches!(chars.next(), Some((_, '\\' | '"' | 'n')))),
            '"' => return Some(&text[at + 1..]),
            _ => {}
        }
    }
    None
}

/// Requests of every kind, and a report.
pub fn seeds() -> Vec<Vec<u8>> {
    let requests = [
        "snapshot\n",
        "metrics\n",
        "trace 1 tcp-3\n",
        "capture 0\r\n",
        "capture 2 96\n",
        "GET /metrics?a=b HTTP/1.1\r\nHost: x\r\n\r\n",
        "HEAD / HTTP/1.0\r\n\r\n",
        "POST / HTTP/1.1\n\n",
    ];
    let mut seeds: Vec<_> = requests.iter().map(|r| [&[0], r.as_bytes()].concat()).collect();
    let report = r#"{"pid":7,"program":"a\"b\n","stacks":[{"id":1,"kind":"ip","device":"t\\p","answered":true,
        "counters":{"packets-in":3,"x y":4},"drops":{"tcp-paws\"":9},"sockets":[{"id":"tcp-1","protocol":"tcp",
        "state":"ESTAB","recv_queue":1,"send_queue":18446744073709551615,"local":"10.0.0.1:80",
        "remote":"10.0.0.2:99","tcp":{"rtt_us":5,"congestion":"open"}}]}]}"#;
    seeds.push([&[1], report.as_bytes()].concat());
    seeds
}
