//! Who is no member, or plays another than itself.

use super::*;

/// A member that knows the key, and plays the sender.
struct Forger {
    opener: GroupReceiver,
    sealer: GroupSender,
    /// Where the next message lies.
    offset: u64,
}

impl Forger {
    fn new(world: &World) -> Forger {
        let mut opener = GroupReceiver::new(1 << 17, DataPass::detect());
        opener.learn(world.board.key()).unwrap();
        let sealer = GroupSender::new(&world.board.key(), 1 << 17, DataPass::detect()).unwrap();
        Forger { opener, sealer, offset: 0 }
    }

    fn seal(&mut self, body: &[u8]) -> Vec<u8> {
        let mut message = vec![0; self.sealer.message_len(body.len())];
        self.sealer.seal(body, &mut message).unwrap();
        self.offset += message.len() as u64 - 16;
        message
    }

    /// Puts another body into a message, which lies where it lay; each is seen in its order, once.
    fn change(&mut self, message: &mut Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) {
        let offset = u64::from_be_bytes(message[8..16].try_into().unwrap());
        if offset > self.offset {
            // One was made shorter.
            self.seal(&vec![0; (offset - self.offset) as usize - 32]);
        }
        if offset == self.offset {
            let mut body = vec![0; message.len() - 48];
            self.opener.open(message, &mut body[..]).unwrap();
            change(&mut body);
            *message = self.seal(&body);
        }
    }
}

#[test]
fn a_member_that_plays_the_sender_makes_no_other_take_a_wrong_byte() {
    for what in ["contents", "short", "hole", "ahead", "garbage", "damage", "stranger"] {
        let mut world = World::new(make_all);
        world.join_all(2);
        world.settle();
        let mut forger = Forger::new(&world);
        let (mut forged, bus) = (0, Arc::clone(&world.bus));
        world.cast(|_, sent| {
            if matches!(what, "contents" | "short" | "hole") {
                // One byte of a long file, of each of the short ones; or a hole where there is none.
                return bus.tamper(1, |message| {
                    forger.change(message, |body| {
                        let is_first = body[..7] == [0; 7] && matches!(body[7], 16 | 17);
                        let position = u64::from_be_bytes(body[12..20].try_into().unwrap());
                        let is_hidden = (2 * BLOCK_LEN..4 * BLOCK_LEN).contains(&position);
                        if what == "hole" && is_first && is_hidden && forged > 0 {
                            // What would contradict it goes elsewhere.
                            body[..4].fill(7);
                            return;
                        }
                        let is_meant = match what {
                            "short" => !is_first,
                            "hole" => is_first && is_hidden,
                            _ => is_first && forged == 0 && position > BLOCK_LEN,
                        };
                        if is_meant && what == "hole" {
                            let piece = (2 * BLOCK_LEN..4 * BLOCK_LEN).into();
                            let body_ = Body::Hole(Hole { copy: 0, piece });
                            let mut hole = emit(&Message { xid: 0, body: body_ }, OCTETS).unwrap();
                            std::mem::swap(body, &mut hole);
                        } else if is_meant {
                            let middle = body.len() / 2;
                            body[middle] ^= 1;
                        }
                        forged += u32::from(is_meant);
                    });
                });
            }
            if sent < BLOCK_LEN || forged > 0 {
                return;
            }
            forged = 1;
            match what {
                "damage" => bus.tamper(1, |message| *message.last_mut().unwrap() ^= 1),
                "stranger" => bus.inject(1, vec![0x55; 300]),
                // What the sender says next lies behind it.
                _ => {
                    (0..20).for_each(|_| drop(forger.seal(&vec![0; 100_000])));
                    let body = Body::Hole(Hole { copy: 0, piece: (0..5).into() });
                    let body = emit(&Message { xid: 9999, body }, OCTETS).unwrap();
                    let body = if what == "garbage" { vec![0; 100] } else { body };
                    bus.inject(1, forger.seal(&body));
                }
            }
        });
        assert!(forged > 0, "{what}");
        assert_eq!(world.members[1].broken.is_some(), what == "garbage");
        for at in 0..2 {
            let rest = world.get_rest(at);
            assert_eq!(
                rest == 0,
                at == 0 || what == "stranger",
                "{what}: member {at}, {rest} bytes"
            );
            NAMES.iter().for_each(|name| world.same(at, name));
            world.has_no_leftovers(at);
        }
        let dropped = world.members[1].dropped;
        assert_eq!(dropped > 0, matches!(what, "ahead" | "damage" | "stranger"), "{what}");
    }
}

#[test]
fn who_reads_without_tags_is_told_no_key() {
    let mut world = World::new(make_all);
    world.join();
    let member = &mut world.members[0];
    member.session = member.session.take().map(|(session, way)| (session.tagged(false), way));
    world.settle();
    let mail = &world.members[0].mail;
    let why = mail.refusal().unwrap();
    assert!(why.contains("no tags") && !mail.is_told(), "{why}");
    assert!(world.board.members().is_empty());
}
