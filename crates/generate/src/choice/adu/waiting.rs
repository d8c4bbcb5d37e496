//! How long an ADU waits behind others of the same end: the response time of fixed priorities, where a packet that has begun to
//! leave is not taken back, and types that are as important have a packet each in turn.
//!
//! `w` is from when an ADU could leave first to when its last packet does: what blocks it, its own packets before that one, and
//! all that comes until then of what goes before it, which is the least fixed point of
//!
//! ```text
//! w = blocked + (q + 1) · own - last + Σ (⌊w ÷ period⌋ + 1) · ms
//! ```
//! for the ADU behind `q` of its own type (N. Audsley, A. Burns, M. Richardson, K. Tindell, A. Wellings: Applying new scheduling
//! theory to static priority pre-emptive scheduling, 1993; R. Davis, A. Burns, R. Bril, J. Lukkien: Controller area network (CAN)
//! schedulability analysis, 2007, for why more than one is looked at).

/// Steps to all fixed points of one busy period; what is further away is as good as nowhere. Each has a term for each other type:
/// there are no more terms than so many.
const STEPS_MAX: u32 = 2_000;
const TERMS_MAX: u32 = 20_000;
/// A share of a period that is none.
const NONE: f64 = 1e-9;

/// ADUs of one type, as they leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// For one of them to leave.
    pub ms: f64,
    /// They come so far apart at least: 0 where nobody says, infinite where no second one matters.
    pub period_ms: f64,
}

/// Which of another type's packets go before an ADU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Before {
    /// All of them.
    All,
    /// One that takes so long, for each of its own.
    InTurn {
        /// For it to leave.
        packet_ms: f64,
    },
}

/// An ADU that waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Own {
    /// What it takes itself.
    pub demand: Demand,
    /// Its packets.
    pub packets: f64,
    /// The last of them.
    pub last_ms: f64,
}

impl Demand {
    /// The share of the path that it takes.
    pub fn share(&self) -> f64 {
        if self.ms == 0.0 { 0.0 } else { self.ms / self.period_ms }
    }

    /// Milliseconds of those that come within so long, one at its beginning and one at its end.
    fn within(&self, ms: f64) -> f64 {
        if self.ms == 0.0 {
            return 0.0;
        }
        if self.period_ms == 0.0 {
            return f64::INFINITY;
        }
        ((ms / self.period_ms + NONE).floor() + 1.0) * self.ms
    }

    /// Whether none comes behind so long and before so long.
    fn has_left(&self, from_ms: f64, to_ms: f64) -> bool {
        self.ms == 0.0
            || (to_ms / self.period_ms - NONE).ceil()
                <= (from_ms / self.period_ms + NONE).floor() + 1.0
    }
}

/// Milliseconds from when an ADU could leave to when it has left; `None`: nobody can say, as what goes before it may not leave
/// faster than it comes.
pub fn response_ms(blocked_ms: f64, own: &Own, others: &[(Demand, Before)]) -> Option<f64> {
    let share = |of: fn(&Before) -> bool| -> f64 {
        others.iter().filter(|(_, before)| of(before)).map(|(demand, _)| demand.share()).sum()
    };
    if share(|before| *before == Before::All) >= 1.0 {
        return None;
    }
    // What comes faster than it leaves always waits, to have its turn.
    let is_full = own.demand.share() + share(|_| true) >= 1.0;
    let (worst, is_left) = busy_ms(blocked_ms, own, others, is_full)?;
    if !is_left {
        return Some(worst);
    }
    // What then comes finds some of them: no more than have their turn, and no more than if they were more important.
    let in_turns = busy_ms(blocked_ms, own, others, true);
    let others: Vec<_> = others.iter().map(|(demand, _)| (*demand, Before::All)).collect();
    let as_first = busy_ms(blocked_ms, own, &others, false);
    let later = [in_turns, as_first].into_iter().flatten().map(|(ms, _)| ms);
    Some(worst.max(later.reduce(f64::min)?))
}

/// The longest of one busy period, and whether types that are as important have some left then. With `is_full` they always have.
fn busy_ms(
    blocked_ms: f64,
    own: &Own,
    others: &[(Demand, Before)],
    is_full: bool,
) -> Option<(f64, bool)> {
    let steps_max = STEPS_MAX.min(TERMS_MAX / (others.len() as u32 + 1)).max(1);
    let all = others.iter().filter(|(_, before)| *before == Before::All);
    let share: f64 = all.map(|(demand, _)| demand.share()).sum();
    let mut worst = 0.0_f64;
    let mut start = blocked_ms;
    let mut steps = 0;
    for behind in 0..STEPS_MAX {
        let count = f64::from(behind) + 1.0;
        let turns = |packet_ms: f64| count * own.packets * packet_ms;
        let alone = blocked_ms + count * own.demand.ms - own.last_ms;
        let until = |ms: f64| {
            let all = others.iter().map(|(demand, before)| match *before {
                Before::All => demand.within(ms),
                Before::InTurn { packet_ms } if is_full => turns(packet_ms),
                Before::InTurn { packet_ms } => demand.within(ms).min(turns(packet_ms)),
            });
            alone + all.sum::<f64>()
        };
        // No earlier than the one before it.
        let mut ms = start.max(alone);
        // Nor than it would be if what goes before it came evenly.
        if share < 1.0 {
            ms = ms.max(alone / (1.0 - share) * (1.0 - NONE));
        }
        loop {
            let next = until(ms).max(ms);
            let is_found = next - ms <= NONE * next;
            ms = next;
            steps += 1;
            if is_found {
                break;
            }
            if steps > steps_max {
                return None;
            }
        }
        start = ms;
        let left = ms + own.last_ms;
        if !own.demand.period_ms.is_finite() {
            return Some((left, false));
        }
        worst = worst.max(left - f64::from(behind) * own.demand.period_ms);
        if left > count * own.demand.period_ms {
            continue;
        }
        // Where all has left that had come, what comes then finds no more than the first. Of what is as important no more goes
        // before it than has its turn.
        let left_of = |of: &(Demand, Before)| !of.0.has_left(ms, left);
        let (all, in_turn): (Vec<_>, Vec<_>) =
            others.iter().partition(|(_, before)| *before == Before::All);
        let has_turns = |of: &&(Demand, Before)| match of.1 {
            Before::InTurn { packet_ms } => is_full || of.0.within(ms) >= turns(packet_ms),
            Before::All => false,
        };
        if !all.into_iter().any(left_of) && !in_turn.iter().any(|of| left_of(of) && !has_turns(of))
        {
            return Some((worst, !is_full && in_turn.iter().any(has_turns)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(ms: f64, packets: f64, period_ms: f64) -> Own {
        Own { demand: Demand { ms, period_ms }, packets, last_ms: ms / packets }
    }

    /// The example of the CAN analysis that showed that one ADU is not enough to look at (Davis et al., section 3.5): three
    /// messages of 1 ms each 2.5, 3.5 and 3.5 ms; the second of the least important waits longer than the first.
    #[test]
    fn the_second_of_a_type_may_wait_longer_than_the_first() {
        let demand = |period_ms| Demand { ms: 1.0, period_ms };
        let others = [(demand(2.5), Before::All), (demand(3.5), Before::All)];
        assert_eq!(response_ms(0.0, &own(1.0, 1.0, 3.5), &others), Some(3.5));
    }

    #[test]
    fn what_fills_the_path_is_waited_for_without_end() {
        let others = |ms| [(Demand { ms, period_ms: 10.0 }, Before::All)];
        let alone = own(1.0, 1.0, f64::INFINITY);
        assert!(response_ms(0.0, &alone, &others(9.0)).is_some());
        assert_eq!(response_ms(0.0, &alone, &others(10.0)), None);
        let unknown = [(Demand { ms: 1.0, period_ms: 0.0 }, Before::All)];
        assert_eq!(response_ms(0.0, &alone, &unknown), None);
        // Of as many as may come one goes for each of its own.
        let in_turn = [(Demand { ms: 4.0, period_ms: 0.0 }, Before::InTurn { packet_ms: 2.0 })];
        assert_eq!(response_ms(0.0, &own(3.0, 3.0, 50.0), &in_turn), Some(9.0));
        // But where they come faster than they leave like that.
        assert_eq!(response_ms(0.0, &own(3.0, 3.0, 8.0), &in_turn), None);
    }

    /// Packets in one queue by importance, those that are as important in turn: by drawn types none waits longer than is found,
    /// and where all come at once some wait nearly so long.
    #[test]
    fn none_waits_longer_than_is_found() {
        let mut state = 7_u64;
        let mut draw = |from: u64, to: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            from + (state >> 33) % (to - from + 1)
        };
        let mut near = 0;
        for round in 0..300 {
            // Importance, packets, ticks of a packet, period.
            let count = draw(2, 5) as usize;
            let types: Vec<(u64, u64, u64, u64)> =
                (0..count).map(|_| (draw(0, 2), draw(1, 4), draw(1, 5), draw(20, 120))).collect();
            for at in 0..count {
                let (importance, packets, ticks, period) = types[at];
                let demand = |(_, packets, ticks, period): (u64, u64, u64, u64)| Demand {
                    ms: (packets * ticks) as f64,
                    period_ms: period as f64,
                };
                let others =
                    types.iter().enumerate().filter(|(n, of)| *n != at && of.0 <= importance);
                let others: Vec<_> = others
                    .map(|(_, of)| match of.0 == importance {
                        true => (demand(*of), Before::InTurn { packet_ms: of.2 as f64 }),
                        false => (demand(*of), Before::All),
                    })
                    .collect();
                let less = types.iter().filter(|of| of.0 > importance).map(|of| of.2);
                let blocked = less.max().unwrap_or(0);
                let own = own((packets * ticks) as f64, packets as f64, period as f64);
                let Some(found) = response_ms(blocked as f64, &own, &others) else { continue };
                // The blocking packet is the first; the rest comes while it leaves.
                let waited = (0..8)
                    .map(|n| {
                        let apart: Vec<u64> =
                            types.iter().map(|of| if n == 0 { 0 } else { draw(0, of.3) }).collect();
                        simulated(&types, &apart, at, blocked)
                    })
                    .max();
                let waited = waited.unwrap_or(0) as f64;
                let what = format!("round {round}, {types:?}, {at}: {waited} of {found}");
                assert!(waited <= found + 1e-6, "{what}");
                near += u32::from(waited >= 0.8 * found);
            }
        }
        assert!(near > 300, "{near}");
    }

    /// The longest that an ADU of one type takes of what begins so far apart, with a packet under way at first.
    fn simulated(types: &[(u64, u64, u64, u64)], apart: &[u64], at: usize, blocked: u64) -> u64 {
        let (mut now, mut turn, mut worst) = (blocked, 0_u64, 0);
        let mut made: Vec<u64> = apart.to_vec();
        let mut served = vec![0_u64; types.len()];
        // When each came, and the packets that are left of it.
        let mut waits: Vec<std::collections::VecDeque<(u64, u64)>> =
            vec![Default::default(); types.len()];
        while now < 4000 {
            for (n, of) in types.iter().enumerate() {
                while made[n] <= now {
                    waits[n].push_back((made[n], of.1));
                    made[n] += of.3;
                }
            }
            let first = (0..types.len())
                .filter(|n| !waits[*n].is_empty())
                .min_by_key(|n| (types[*n].0, served[*n]));
            let Some(n) = first else {
                now += 1;
                continue;
            };
            turn += 1;
            served[n] = turn;
            now += types[n].2;
            let (came, left) = waits[n][0];
            if left > 1 {
                waits[n][0].1 -= 1;
                continue;
            }
            waits[n].pop_front();
            if n == at {
                worst = worst.max(now - came);
            }
        }
        worst
    }
}
