//! What a process refuses comes to who asked for a capture, before anything is written.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;

use fusewire_device::pcapng;
use fusewire_view::{client, place};

#[test]
fn a_refused_capture_is_an_error_in_words() {
    let folder = tempfile::tempdir().unwrap();
    place::choose(folder.path().to_path_buf());
    let path = folder.path().join(format!("{}.sock", std::process::id()));
    let listener = UnixListener::bind(path).unwrap();
    let mut section = Vec::new();
    pcapng::section(&mut section);
    let head = section.clone();
    let answers = std::thread::spawn(move || {
        let pieces: [&[&[u8]]; 4] = [
            // In pieces, as a stream may give them.
            &[b"{\"er", b"ror\":\"a capture is under way\"}\n"],
            &[&head[..3], &head[3..]],
            &[b"what is this"],
            &[],
        ];
        for answer in pieces {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            assert_eq!(line, "capture 0\n");
            for piece in answer {
                stream.write_all(piece).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    });
    let process = client::processes().remove(0);
    let refused = process.capture(0, None).unwrap_err();
    assert_eq!(refused.to_string(), "a capture is under way");
    let mut bytes = Vec::new();
    process.capture(0, None).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, section);
    // What is neither is for who takes blocks apart; nothing at all is an end.
    bytes.clear();
    process.capture(0, None).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b"what is this");
    bytes.clear();
    process.capture(0, None).unwrap().read_to_end(&mut bytes).unwrap();
    assert!(bytes.is_empty());
    answers.join().unwrap();
}
