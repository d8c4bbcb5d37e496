//! What is lost and comes too late to be sent again: both sides are told.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use fusewire_base::Instant;

use super::{Application, Broken, Came, Event, Kept, Profile, Rules, TAIL, World, broken};
use super::{TICK, Why, lane_of, with_seeds};

/// How long nothing comes through.
const DARK: Duration = Duration::from_secs(2);

/// While nothing comes through, what is kept to be sent again is given up when its time is over: each ADU comes, or its sender is
/// told that it has not, and its receiver, too, once something comes again; and none of both.
///
/// # Errors
/// What does not hold.
pub fn gives_up<A: Profile, B: Profile>() -> Kept {
    with_seeds(once::<A, B>)
}

/// What is sent while all comes through, while of one way nothing does, as `darken` makes it (what share of that is lost), and
/// while all does again; and then nothing, until all is known.
fn through_the_dark<A: Profile, B: Profile>(
    seed: u64,
    mut darken: impl FnMut(&mut World<A, B>, f64),
    mut told: impl FnMut(Event<'_>),
    mut heard: impl FnMut(Instant, &Application, Event<'_>) -> Kept,
) -> std::result::Result<Application, Broken> {
    let good = Rules { delay: A::NETWORK.one_way, ..Rules::NONE };
    let mut world = World::<A, B>::new(good, 1.0, seed)?;
    let application = RefCell::new(Application::new(A::SENDS.len()));
    // When the deadline of the last ADU is over, its fate is known.
    let longest = A::SENDS.iter().filter_map(|adu| adu.deadline).max().unwrap_or_default();
    let tail = TAIL.max(longest + Duration::from_secs(1));
    for (loss, sends, long) in [
        (0.0, true, Duration::from_secs(2)),
        (1.0, true, DARK),
        (0.0, true, Duration::from_secs(2)),
        (0.0, false, tail),
    ] {
        darken(&mut world, loss);
        world.run(
            long,
            |now, end| {
                if sends {
                    application.borrow_mut().push(now, end);
                }
            },
            |_, event| match event {
                Event::Target { made, .. } => application.borrow_mut().made = Some(made),
                event => told(event),
            },
            |now, event| heard(now, &application.borrow(), event),
        )?;
    }
    Ok(application.into_inner())
}

fn once<A: Profile, B: Profile>(seed: u64) -> Kept {
    let mut came: Vec<Came> = A::SENDS.iter().map(|_| Came::default()).collect();
    let mut lost = vec![BTreeSet::new(); A::SENDS.len()];
    let application = through_the_dark::<A, B>(
        seed,
        |world, loss| world.forth.rules.loss = loss,
        |event| {
            if let Event::Lost { lane, number, .. } = event {
                lost[lane].insert(number);
            }
        },
        |now, application, event| {
            let Some(lane) = lane_of(&event) else { return Ok(()) };
            came[lane].hears(now, &A::SENDS[lane], application, &event)
        },
    )?;
    for (lane, adu) in B::TAKES.iter().enumerate().filter(|(_, adu)| adu.kept > 0) {
        let mut given_up = 0;
        for number in 0..application.pushed[lane].len() as u64 {
            let has_come = came[lane].adus.contains_key(&number);
            let is_told = lost[lane].contains(&number);
            given_up += u32::from(is_told);
            if has_come && is_told {
                return broken(adu, format!("{number} came, and is told not to have"));
            }
            if !has_come && !is_told {
                return broken(adu, format!("{number} neither came nor is told to its sender"));
            }
            let last = came[lane].adus.last_key_value().map_or(0, |(last, _)| *last);
            let is_known = came[lane].gone.contains(&number) || came[lane].late.contains(&number);
            if number < last && !has_come && !is_known {
                return broken(adu, format!("{number} neither came nor is told to its receiver"));
            }
        }
        // Most of what was made in the dark, and nothing else.
        let hz = if adu.hz > 0.0 { adu.hz } else { super::HZ };
        let made = (hz * (DARK + TICK).as_secs_f64()).ceil() as u32;
        let deadline = adu.deadline.unwrap_or_default().as_secs_f64();
        let saved = (hz * deadline).ceil() as u32 + 1;
        if given_up > made || given_up + saved < made {
            return broken(adu, format!("{given_up} of {made} are given up"));
        }
    }
    Ok(())
}

/// While no report comes, and all else does, who sends is told of nothing that has come that it has not, and sends little again.
///
/// # Errors
/// What does not hold.
pub fn is_sure<A: Profile, B: Profile>() -> Kept {
    with_seeds(without_reports::<A, B>)
}

fn without_reports<A: Profile, B: Profile>(seed: u64) -> Kept {
    let mut came = vec![BTreeSet::new(); A::SENDS.len()];
    let (mut lost, mut sent_again) = (Vec::new(), Vec::new());
    through_the_dark::<A, B>(
        seed,
        |world, loss| {
            world.back.rules.loss = loss;
            sent_again.push(world.from.counters().sent_again);
        },
        |event| {
            if let Event::Lost { lane, number, why: Why::Expired | Why::Displaced } = event {
                lost.push((lane, number));
            }
        },
        |_, _, event| {
            if let Event::Adu { lane, number, .. } = event {
                came[lane].insert(number);
            }
            Ok(())
        },
    )?;
    // Within the second of them.
    let again = sent_again[2] - sent_again[1];
    for (lane, adu) in A::SENDS.iter().enumerate().filter(|(_, adu)| adu.kept > 0) {
        if let Some((_, number)) =
            lost.iter().find(|(of, number)| *of == lane && came[lane].contains(number))
        {
            return broken(adu, format!("{number} came, and is told not to have"));
        }
        let hz = if adu.hz > 0.0 { adu.hz } else { super::HZ };
        let made = (hz * DARK.as_secs_f64()) as u64;
        if again * 4 > made {
            let what = format!("{again} go again while no report comes, and {made} were made");
            return broken(adu, what);
        }
    }
    Ok(())
}
