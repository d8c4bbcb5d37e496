//! What holds of a definition once it holds of all that the definition is made of, found in time proportional to the
//! definitions and their parts: each is looked at once, when the last of what it needs was found.

use super::model::DefId;

/// What a definition needs for something to hold of it.
pub type Needs = Option<Vec<DefId>>;

/// Of which definitions it holds, and how many times one was looked at for that. It never holds where `needs` is
/// nothing, and only where `may`, asked behind all that is needed, says so too.
pub fn settled(needs: &[Needs], mut may: impl FnMut(DefId) -> bool) -> (Vec<bool>, usize) {
    let mut holders: Vec<Vec<DefId>> = vec![Vec::new(); needs.len()];
    let mut missing = vec![0_usize; needs.len()];
    let mut found = Vec::new();
    for (id, of) in needs.iter().enumerate() {
        let Some(of) = of else { continue };
        missing[id] = of.len();
        of.iter().for_each(|&to| holders[to].push(id));
        if of.is_empty() {
            found.push(id);
        }
    }
    let (mut holds, mut steps) = (vec![false; needs.len()], 0);
    while let Some(id) = found.pop() {
        steps += 1;
        if !may(id) {
            continue;
        }
        holds[id] = true;
        for &holder in &holders[id] {
            steps += 1;
            missing[holder] -= 1;
            if missing[holder] == 0 {
                found.push(holder);
            }
        }
    }
    (holds, steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_one_step_for_each_part() {
        const COUNT: usize = 20_000;
        // Each needs the next, which in both orders was the worst for one pass after the other.
        for is_forwards in [true, false] {
            let next = |id: usize| if is_forwards { id.checked_add(1) } else { id.checked_sub(1) };
            let needs: Vec<Needs> = (0..COUNT)
                .map(|id| Some(next(id).filter(|n| *n < COUNT).into_iter().collect()))
                .collect();
            let (holds, steps) = settled(&needs, |_| true);
            assert!(holds.iter().all(|h| *h));
            assert!(steps <= 2 * COUNT, "{steps} steps");
        }
    }

    #[test]
    fn what_needs_itself_or_what_never_holds_does_not() {
        let needs =
            [Some(vec![1]), Some(vec![0]), None, Some(vec![2, 4]), Some(vec![]), Some(vec![4, 4])];
        assert_eq!(settled(&needs, |_| true).0, [false, false, false, false, true, true]);
        assert_eq!(settled(&needs, |id| id != 5).0, [false, false, false, false, true, false]);
    }
}
