//! The slots of requests, whose words and contents an application writes as it likes, honestly or not: the outboard takes what was
//! asked once, within its bounds, and answers under the number that it has taken.
use fusewire_device::{Shared, Writers};
use fusewire_outboard::commands::{
    self, ASKED, ASLEEP, CLAIMED, Number, SLOTS, TABLE_LEN, TAKEN, Table, Word,
};
use fusewire_outboard::news;
use fusewire_outboard::protocol::{Handle, MESSAGE_MAX, OptionName, Reply, Request};
use fusewire_outboard::words::Words;

use crate::Choices;

const STEPS_MAX: usize = 200;
/// Slots that are used: few, so that they are used again.
const USED: usize = 4;

thread_local! {
    /// A table, which takes longer to make than a run.
    static TABLE: (Shared, Shared) = (
        Shared::create(TABLE_LEN, Writers::All).expect("memory for commands").1,
        Shared::create(TABLE_LEN, Writers::Maker).expect("memory for answers").1,
    );
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    TABLE.with(|(commands, answers)| {
        let table = Table { commands, answers };
        news::hear(&table.news());
        for slot in 0..SLOTS {
            table.store(Word::State(slot), 0);
            table.store(Word::Answered(slot), 0);
            if slot < USED {
                // As a run finds it that is the first.
                commands.write(Table::bytes_at(slot), &[0; MESSAGE_MAX]);
            }
        }
        let mut claimed = [None; USED];
        for _ in 0..STEPS_MAX {
            if choices.is_empty() {
                break;
            }
            let slot = usize::from(choices.u8()) % USED;
            match choices.u8() % 4 {
                0 => lie(&table, slot, &mut choices),
                1 => ask(&table, slot, &mut claimed, &mut choices),
                2 => wait(&table, slot, &mut claimed, &mut choices),
                _ => serve(&table, &mut choices),
            }
        }
    });
}

/// The application writes what it likes where it may write.
fn lie(table: &Table<'_>, slot: usize, choices: &mut Choices<'_>) {
    let any = |choices: &mut Choices<'_>| u64::from(choices.u32()) << 32 | u64::from(choices.u32());
    match choices.u8() % 5 {
        0 => table.store(Word::State(slot), any(choices)),
        1 => {
            let (flags, len) = (u64::from(choices.u8() % 16), u64::from(choices.u16()));
            table.store(Word::State(slot), u64::from(choices.u8()) << 32 | len << 16 | flags);
        }
        2 => drop(table.fetch_or(Word::State(slot), any(choices))),
        3 => {
            let at = usize::from(choices.u8());
            let len = usize::from(choices.u8());
            table.commands.write(Table::bytes_at(slot) + at, choices.bytes(len));
        }
        _ => drop(table.commands.fetch_or(0, any(choices))),
    }
}

/// A caller asks, as an honest one does.
fn ask(
    table: &Table<'_>,
    slot: usize,
    claimed: &mut [Option<Number>; USED],
    choices: &mut Choices<'_>,
) {
    let state = table.load(Word::State(slot));
    let Some(number) = commands::claim(table, slot) else {
        assert!(state & CLAIMED != 0, "it is free");
        return;
    };
    let len = usize::from(choices.u16()) % (MESSAGE_MAX + 1);
    let bytes = choices.bytes(len);
    table.commands.write(Table::bytes_at(slot), bytes);
    commands::ask(table, slot, number, bytes.len());
    news::tell(&table.news(), 1 << slot);
    claimed[slot] = Some(number);
}

/// He looks for the answer, sleeps, or gives up.
fn wait(
    table: &Table<'_>,
    slot: usize,
    claimed: &mut [Option<Number>; USED],
    choices: &mut Choices<'_>,
) {
    let Some(number) = claimed[slot] else { return };
    let found = match choices.u8() % 3 {
        0 => commands::answer(table, slot, number),
        1 => commands::sleeps(table, slot, number),
        _ => {
            let state = table.load(Word::State(slot));
            let is_withdrawn = commands::withdraw(table, slot, number);
            assert_eq!(is_withdrawn, state & TAKEN == 0);
            if is_withdrawn {
                claimed[slot] = None;
                assert!(table.load(Word::State(slot)) & CLAIMED == 0);
            }
            return;
        }
    };
    if let Ok(len) = found {
        let mut bytes = [0; MESSAGE_MAX];
        table.answers.read(Table::bytes_at(slot), &mut bytes[..len]);
        // Whoever lies about his numbers finds one that nobody has answered.
        assert!(len == 0 || Reply::parse(&bytes[..len]).is_ok(), "half an answer");
        commands::free(table, slot, number);
        claimed[slot] = None;
    }
}

/// The outboard answers all that it hears of.
fn serve(table: &Table<'_>, choices: &mut Choices<'_>) {
    assert_eq!(news::sleeps(&table.news(), true, !0), table.commands.load(0) == 0);
    news::sleeps(&table.news(), false, !0);
    let told = news::hear(&table.news());
    assert_eq!(news::hear(&table.news()), 0, "told twice");
    for slot in (0..SLOTS).filter(|slot| told & 1 << slot != 0) {
        let state = table.load(Word::State(slot));
        let is_asked = state & (CLAIMED | ASKED | TAKEN) == CLAIMED | ASKED;
        let len = (state >> 16 & 0xffff) as usize;
        let asked = match commands::take(table, slot) {
            Ok(None) => {
                assert!(!is_asked);
                continue;
            }
            Ok(Some(asked)) => asked,
            Err(error) => {
                assert!(is_asked && error.found == len && len > MESSAGE_MAX);
                continue;
            }
        };
        assert!(is_asked && asked.len == len && len <= MESSAGE_MAX);
        assert_eq!(commands::take(table, slot), Ok(None), "it was taken");
        let mut bytes = [0; MESSAGE_MAX];
        table.commands.read(Table::bytes_at(slot), &mut bytes[..len]);
        let is_request = Request::parse(&bytes[..len]).is_ok_and(|request| request.is_plain());
        let value = [choices.u8(); 3];
        let reply = if is_request { Reply::Value(&value) } else { Reply::Failed(71) }.emit();
        table.answers.write(Table::bytes_at(slot), &reply);
        let is_asleep = commands::complete(table, slot, asked, reply.len());
        assert_eq!(is_asleep, state & ASLEEP != 0);
        let answered = table.load(Word::Answered(slot));
        assert_eq!((answered >> 32, answered as usize & 0xffff), (state >> 32, reply.len()));
    }
}

/// Requests that are asked and answered, and some that nobody asks so.
pub fn seeds() -> Vec<Vec<u8>> {
    let handle = Handle { socket: 3, token: [7; 16] };
    let option = OptionName { level: 6, name: 1 };
    let requests = [
        Request::Bind(handle, "[fd00::1]:80".parse().expect("an address")).emit(),
        Request::Local(handle).emit(),
        Request::SetOption(handle, option, &[1, 0, 0, 0]).emit(),
        Request::Attach.emit(),
    ];
    let asks = requests.iter().map(|request| {
        let len = (request.len() as u16).to_le_bytes();
        // Asks; sleeps; is answered; takes the answer; asks once more and withdraws it.
        let ask = [&[0, 1][..], &len, request].concat();
        [&ask[..], &[0, 2, 1], &[0, 3, 9], &[0, 2, 0], &ask, &[0, 2, 2]].concat()
    });
    // Too long; taken already; a bit of news of each slot.
    let lies = [
        vec![0, 0, 1, 3, 2, 2, 7, 0, 0, 4, 255, 255, 255, 255, 255, 255, 255, 255, 0, 3, 1],
        vec![1, 0, 1, 7, 32, 0, 7, 1, 0, 4, 255, 255, 255, 255, 255, 255, 255, 255, 0, 3, 1],
    ];
    asks.chain(lies).collect()
}
