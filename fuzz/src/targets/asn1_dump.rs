//! BER without a module: what is shown has no control character, offsets are in the data, and what the walk takes
//! to its end is as long as its parts say.

use fusewire_asn1_values::characters::is_unsafe;
use fusewire_asn1_values::dump::text::{Style, error_line, line};
use fusewire_asn1_values::dump::{Event, Options, json, walk};
use fusewire_asn1_values::input::{Form, encodings};

/// Runs one input: the first byte chooses how.
pub fn run(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let form = [Form::Auto, Form::Ber, Form::Pem, Form::Hex][usize::from(first >> 6)];
    let options = Options { nested: first & 1 == 1, depth: usize::from(first >> 1 & 31) };
    let Ok(found) = encodings(data, form) else { return };
    for part in found {
        one(&part.bytes, options);
    }
}

fn one(data: &[u8], options: Options) {
    let style = Style::for_bytes(data.len(), false);
    let mut last = None;
    let result = walk(data, options, |event| {
        let (offset, depth) = match &event {
            Event::End { offset, depth } => (*offset, *depth),
            Event::Element(element) => (element.offset, element.depth),
        };
        assert!(offset < data.len(), "an offset behind the data");
        assert!(depth <= options.depth, "deeper than allowed");
        assert!(last.is_none_or(|last| offset > last), "an offset twice");
        last = Some(offset);
        let shown = line(&event, style);
        assert!(!shown.contains(is_unsafe), "{shown:?}");
        json::object(&event);
    });
    if let Err(error) = result {
        assert!(error.offset <= data.len(), "{error}");
        assert!(!error_line(&error, style).contains(is_unsafe));
    }
}

/// Encodings of every kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let seeds: [&[u8]; 8] = [
        b"\x7f\x30\x80\xa1\x03\x02\x01\x05\x24\x80\x04\x01a\0\0\0\0\x05\0",
        b"\x7f\x30\x0f\x04\x03\x02\x01\x05\x03\x05\x00\x30\x02\x05\x00\x04\x01\x05",
        b"\x5e\x30\x1a\x17\x0d991231235959Z\x18\x0919910517Z\x01\x01\xff",
        b"\x5e\x30\x12\x06\x03\x2a\x03\x04\x09\x03\x80\xff\x03\x0a\x01\x07\x0d\x01\x05\x05\0",
        b"\x5e\x30\x12\x1e\x04\0a\x20\xac\x1c\x04\0\0\0a\x0c\x02\xc3\xa9\x14\x01\xe9",
        b"\x5e\x5f\x87\x68\x81\x01\x05\xff\x1f\0",
        b"\xbf-----BEGIN A-----\nMAMCAQU=\n-----END A-----\n",
        b"\xff30 03 02:01,05\n",
    ];
    seeds.iter().map(|s| s.to_vec()).collect()
}
