//! Services that our side offers to programs of the kernel's side: echo, HTTP, and the server of iperf3.

use std::collections::HashMap;
use std::net::SocketAddr;

use fusewire_stack::ip::{SocketId, Stack};

use crate::lan::Lan;

/// What a connection's service answers to what came, and whether it ends then.
pub trait Service {
    /// Takes what was received of a connection; puts what is to be sent into `out`. True: no more comes
    /// from us after that.
    fn received(&mut self, bytes: &[u8], end: bool, out: &mut Vec<u8>) -> bool;
}

/// A listener whose connections each have a service.
pub struct Server<S> {
    listener: SocketId,
    make: Box<dyn FnMut(usize) -> S>,
    connections: HashMap<SocketId, Connection<S>>,
    /// Connections so far.
    pub accepted: usize,
    buffer: Vec<u8>,
}

struct Connection<S> {
    service: S,
    out: Vec<u8>,
    sent: usize,
    finished: bool,
    peer_finished: bool,
}

impl<S: Service> Server<S> {
    pub fn new(stack: &mut Stack, at: SocketAddr, make: impl FnMut(usize) -> S + 'static) -> Self {
        Server {
            listener: stack.tcp_listen(at, 16).unwrap(),
            make: Box::new(make),
            connections: HashMap::new(),
            accepted: 0,
            buffer: vec![0; 1 << 16],
        }
    }

    /// Does what there is to do.
    pub fn step(&mut self, lan: &mut Lan) {
        let stack = &mut lan.stack;
        while let Some((id, _)) = stack.tcp_accept(self.listener).unwrap() {
            let service = (self.make)(self.accepted);
            self.accepted += 1;
            let connection = Connection {
                service,
                out: Vec::new(),
                sent: 0,
                finished: false,
                peer_finished: false,
            };
            self.connections.insert(id, connection);
        }
        let now = lan.clock.now();
        let buffer = &mut self.buffer;
        self.connections.retain(|id, connection| {
            let goes_on = connection.step(stack, *id, buffer);
            if !goes_on {
                let _ = stack.close(now, *id);
            }
            goes_on
        });
    }
}

impl<S: Service> Connection<S> {
    /// False when it is over.
    fn step(&mut self, stack: &mut Stack, id: SocketId, buffer: &mut [u8]) -> bool {
        // What cannot be sent is not asked for.
        while self.out.len() - self.sent < 1 << 20 && !self.peer_finished {
            let Ok(read) = stack.tcp_read(id, buffer) else { return false };
            let Some(len) = read else { break };
            self.peer_finished = len == 0;
            self.finished |= self.service.received(&buffer[..len], len == 0, &mut self.out);
        }
        let Ok(sent) = stack.tcp_write(id, &self.out[self.sent..]) else { return false };
        self.sent += sent;
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
            return !(self.finished || self.peer_finished);
        }
        true
    }
}

/// Sends back what comes.
pub struct Echo;

impl Service for Echo {
    fn received(&mut self, bytes: &[u8], end: bool, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(bytes);
        end
    }
}

/// HTTP/1.0: answers GET with the content, PUT with the hash of what came.
pub struct Http {
    pub content: Vec<u8>,
    pub request: Vec<u8>,
}

impl Service for Http {
    fn received(&mut self, bytes: &[u8], end: bool, out: &mut Vec<u8>) -> bool {
        self.request.extend_from_slice(bytes);
        let head = self.request.windows(4).position(|w| w == b"\r\n\r\n");
        let Some(head) = head else { return end };
        let text = String::from_utf8_lossy(&self.request[..head]).to_lowercase();
        let body = &self.request[head + 4..];
        if text.starts_with("put ") {
            let length = text.lines().find_map(|l| l.strip_prefix("content-length: "));
            let length: usize = length.and_then(|l| l.trim().parse().ok()).unwrap_or(0);
            if body.len() < length {
                return end;
            }
            let hash = blake3::hash(body).to_hex();
            out.extend_from_slice(b"HTTP/1.0 200 OK\r\n\r\n");
            out.extend_from_slice(hash.as_bytes());
            return true;
        }
        let length = self.content.len();
        let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n");
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&self.content);
        true
    }
}

/// The server of iperf3, so far that its client is content: one TCP stream from the client.
pub enum Iperf {
    Control { state: Control, bytes: Vec<u8> },
    Data,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Control {
    Cookie,
    Parameters,
    Running,
    Results,
    Over,
}

/// States of the control connection, as its source names them.
mod state {
    pub const TEST_START: u8 = 1;
    pub const TEST_RUNNING: u8 = 2;
    pub const TEST_END: u8 = 4;
    pub const PARAM_EXCHANGE: u8 = 9;
    pub const CREATE_STREAMS: u8 = 10;
    pub const EXCHANGE_RESULTS: u8 = 13;
    pub const DISPLAY_RESULTS: u8 = 14;
    pub const IPERF_DONE: u8 = 16;
}

const COOKIE: usize = 37;

impl Iperf {
    /// The first connection is for control.
    pub fn of(number: usize) -> Iperf {
        match number {
            0 => Iperf::Control { state: Control::Cookie, bytes: Vec::new() },
            _ => Iperf::Data,
        }
    }
}

impl Service for Iperf {
    fn received(&mut self, new: &[u8], end: bool, out: &mut Vec<u8>) -> bool {
        let Iperf::Control { state, bytes } = self else { return end };
        bytes.extend_from_slice(new);
        loop {
            // What comes next, in bytes.
            let len = match state {
                Control::Cookie => COOKIE,
                Control::Parameters | Control::Results => {
                    let Some(prefix) = bytes.first_chunk::<4>() else { return end };
                    4 + u32::from_be_bytes(*prefix) as usize
                }
                Control::Running | Control::Over => 1,
            };
            if bytes.len() < len {
                return end;
            }
            let taken: Vec<u8> = bytes.drain(..len).collect();
            *state = match state {
                Control::Cookie => {
                    out.push(state::PARAM_EXCHANGE);
                    Control::Parameters
                }
                Control::Parameters => {
                    let states = [state::CREATE_STREAMS, state::TEST_START, state::TEST_RUNNING];
                    out.extend_from_slice(&states);
                    Control::Running
                }
                Control::Running if taken[0] == state::TEST_END => {
                    out.push(state::EXCHANGE_RESULTS);
                    Control::Results
                }
                Control::Running => Control::Running,
                Control::Results => {
                    let results = br#"{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"sender_has_retransmits":-1,"streams":[{"id":1,"bytes":1,"retransmits":-1,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":1}]}"#;
                    out.extend_from_slice(&(results.len() as u32).to_be_bytes());
                    out.extend_from_slice(results);
                    out.push(state::DISPLAY_RESULTS);
                    Control::Over
                }
                Control::Over if taken[0] == state::IPERF_DONE => return true,
                Control::Over => Control::Over,
            };
        }
    }
}
