//! Requests and answers: how long each is waited for.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use fusewire_service::stream;
use fusewire_stack::{CallId, ConnectionId, Stack};

use super::bulk::DATAGRAM;
use super::chosen::Client;
use super::world::World;
use super::{Path, Way, body, number_of, one_for_all, same, spread, wrong};
use crate::Result;

/// Bytes of a request, and of its answer.
const LENS: [usize; 2] = [64, 1000];
/// How long the last answer may take.
const TAIL: Duration = Duration::from_secs(60);

/// What came of requests.
pub struct Answers {
    /// From when each request was wanted to its answer: ms, the shortest first.
    pub delays_ms: Vec<f64>,
    /// Bytes of packets, both ways, by bytes of requests and answers.
    pub wire: f64,
}

/// So many requests, so many a second whether those before are answered or not.
///
/// # Errors
/// [`Error::Wrong`](crate::Error::Wrong) where what comes is not what was sent, or does not come;
/// [`Error::Stack`](crate::Error::Stack), [`Error::Session`](crate::Error::Session).
pub fn answers(way: Way, path: &Path, hz: f64, count: u64, seed: u64) -> Result<Answers> {
    let config = match way {
        Way::One => one_for_all(),
        Way::Chosen => stream::config::<Client>(),
    };
    let mut world = World::new(path, config, DATAGRAM, seed)?;
    let (begun, before) = (world.link.now(), world.link.sent_bytes());
    // Not in step with anything.
    let due = |n: u64| begun + Duration::from_secs_f64((n as f64 + spread(n)) / hz);
    let (mut asked, mut delays_ms) = (0, Vec::new());
    let (mut calls, mut waiting) = (HashMap::new(), 0..0);
    world.run(
        Duration::from_secs_f64(count as f64 / hz) + TAIL,
        |[client, server], ids, now| {
            while asked < count && due(asked) <= now {
                let request = body(asked, LENS[0]);
                let is_taken = match way {
                    Way::One => client.send(ids[0], &request)?,
                    Way::Chosen => match client.begin_call(ids[0], &request[..])? {
                        Some(call) => calls.insert(call, asked).is_none(),
                        None => false,
                    },
                };
                if !is_taken {
                    break;
                }
                asked += 1;
            }
            match way {
                Way::One => serve_stream(server, ids[1], &mut waiting)?,
                Way::Chosen => serve_calls(server, ids[1])?,
            }
            while let Some((number, answer)) = match way {
                Way::One => client.recv(ids[0]),
                Way::Chosen => answered(client, ids[0], &mut calls)?,
            } {
                same("the answers", number, &answer, LENS[1])?;
                delays_ms.push((now - due(number)).as_secs_f64() * 1e3);
            }
            let next = if asked < count { due(asked) } else { now + TAIL };
            Ok((delays_ms.len() as u64 != count).then_some(next))
        },
    )?;
    delays_ms.sort_by(f64::total_cmp);
    let bytes = count * (LENS[0] + LENS[1]) as u64;
    let wire = (world.link.sent_bytes() - before) as f64 / bytes as f64;
    Ok(Answers { delays_ms, wire })
}

/// Answers are in the order of requests, and both in streams; `waiting` are those that there was no room for.
fn serve_stream(server: &mut Stack, id: ConnectionId, waiting: &mut Range<u64>) -> Result<()> {
    while let Some((number, request)) = server.recv(id) {
        same("the requests", number, &request, LENS[0])?;
        waiting.end = number + 1;
    }
    while let Some(number) = waiting.clone().next()
        && server.send(id, &body(number, LENS[1]))?
    {
        waiting.start += 1;
    }
    Ok(())
}

fn serve_calls(server: &mut Stack, id: ConnectionId) -> Result<()> {
    while let Some((asked, request)) = server.next_call(id) {
        let number = number_of(&request)?;
        same("the requests", number, &request, LENS[0])?;
        server.answer_call(id, asked, &body(number, LENS[1])[..])?;
    }
    Ok(())
}

/// The next answer, and the number of its request.
fn answered(
    client: &mut Stack,
    id: ConnectionId,
    calls: &mut HashMap<CallId, u64>,
) -> Result<Option<(u64, Vec<u8>)>> {
    let Some((call, answer)) = client.take_answer(id, None) else { return Ok(None) };
    let number = calls.remove(&call).ok_or_else(|| wrong("an answer comes twice".into()))?;
    Ok(Some((number, answer?)))
}
