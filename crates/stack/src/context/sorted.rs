//! The order of what waits for its turn: the larger sort first, of one sort whoever waits longest; and so that nobody
//! starves, one turn of [`ODDS`] is of whoever waits longest, whatever its sort (`docs/xtp.md`, section 11).

use std::collections::VecDeque;

/// One turn of so many is of whoever waits longest: of `n` that wait none waits for more than `ODDS * n` turns of others.
pub const ODDS: u32 = 16;

/// Who waits, in lists by their sort, the largest first. No list is empty.
#[derive(Debug)]
pub struct Sorted<T> {
    lists: Vec<List<T>>,
    /// Memory of lists that became empty.
    spare: Vec<VecDeque<Waiting<T>>>,
    /// Counts who came: the smaller waits longer.
    came: u64,
    /// Turns since, and with, the last of whoever waited longest.
    turns: u32,
    len: usize,
}

#[derive(Debug)]
struct List<T> {
    sort: u16,
    waiting: VecDeque<Waiting<T>>,
}

#[derive(Debug)]
struct Waiting<T> {
    since: u64,
    item: T,
}

/// Whose turn it is.
#[derive(Debug, PartialEq, Eq)]
pub struct Turn<T> {
    /// Who.
    pub item: T,
    /// Turns in a row that may be its own, before [`Sorted::pick`] is asked again.
    pub turns: u32,
}

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Sorted { lists: Vec::new(), spare: Vec::new(), came: 0, turns: 1, len: 0 }
    }
}

impl<T> Sorted<T> {
    /// `item` waits, from now on.
    pub fn push(&mut self, sort: u16, item: T) {
        let at = self.list(sort);
        self.came += 1;
        self.lists[at].waiting.push_back(Waiting { since: self.came, item });
        self.len += 1;
    }

    /// The list of those with this sort.
    fn list(&mut self, sort: u16) -> usize {
        let at = self.lists.partition_point(|list| list.sort > sort);
        if self.lists.get(at).is_none_or(|list| list.sort != sort) {
            let waiting = self.spare.pop().unwrap_or_default();
            self.lists.insert(at, List { sort, waiting });
        }
        at
    }

    /// Whose turn it is. It waits no longer; who wants more is pushed again, after [`Sorted::used`] was told how many
    /// turns it took.
    pub fn pick(&mut self) -> Option<Turn<T>> {
        let at = self.next()?;
        let item = self.take(at, 0)?;
        let turns = match () {
            // Alone, it is the one that waits longest.
            () if self.is_empty() => u32::MAX,
            () if !self.is_due() => ODDS - self.turns,
            () if at > 0 => 1,
            () => ODDS,
        };
        Some(Turn { item, turns })
    }

    /// Whom [`Sorted::pick`] would give.
    pub fn peek(&self) -> Option<&T> {
        Some(&self.lists.get(self.next()?)?.waiting.front()?.item)
    }

    /// The list whose first is next.
    fn next(&self) -> Option<usize> {
        if self.is_due() { self.longest() } else { Some(0) }
    }

    /// The next turn is of whoever waits longest.
    fn is_due(&self) -> bool {
        self.turns >= ODDS
    }

    /// Who was picked took so many turns; of none nobody had any.
    pub fn used(&mut self, turns: u32) {
        self.turns = match turns {
            0 => self.turns,
            _ if self.is_empty() => 1,
            _ if self.is_due() => turns,
            _ => (self.turns + turns).min(ODDS),
        };
    }

    /// The list whose first waits longest.
    fn longest(&self) -> Option<usize> {
        let since = |at: &usize| self.lists[*at].waiting.front().map_or(u64::MAX, |w| w.since);
        (0..self.lists.len()).min_by_key(since)
    }

    fn take(&mut self, list: usize, place: usize) -> Option<T> {
        let waiting = &mut self.lists.get_mut(list)?.waiting;
        let taken = waiting.remove(place)?;
        if waiting.is_empty() {
            let list = self.lists.remove(list);
            self.spare.push(list.waiting);
        }
        self.len -= 1;
        Some(taken.item)
    }

    /// Takes out those for which `is_it` holds.
    pub fn remove(&mut self, mut is_it: impl FnMut(&T) -> bool) {
        for list in (0..self.lists.len()).rev() {
            for place in (0..self.lists[list].waiting.len()).rev() {
                if is_it(&self.lists[list].waiting[place].item) {
                    self.take(list, place);
                }
            }
        }
    }

    /// The largest sort that waits.
    pub fn sort(&self) -> Option<u16> {
        self.lists.first().map(|list| list.sort)
    }

    /// Nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who has the next `count` turns, where all want more.
    fn turns(sorted: &mut Sorted<(u16, u32)>, count: usize) -> Vec<u32> {
        let mut order = Vec::new();
        while order.len() < count {
            let Turn { item, turns } = sorted.pick().unwrap();
            let taken = turns.min(20);
            order.extend((0..taken).map(|_| item.1));
            sorted.used(taken);
            sorted.push(item.0, item);
        }
        order
    }

    fn of(sorts: &[u16]) -> Sorted<(u16, u32)> {
        let mut sorted = Sorted::default();
        for (who, sort) in (0..).zip(sorts) {
            sorted.push(*sort, (*sort, who));
        }
        sorted
    }

    #[test]
    fn the_largest_has_all_turns_but_one_of_sixteen() {
        let order = turns(&mut of(&[1, 9, 5]), 16 * 60);
        let odd = (0..).zip(&order).filter(|(_, who)| **who != 1).map(|(at, who)| (at, *who));
        let odd: Vec<(usize, u32)> = odd.collect();
        assert_eq!(odd[..4], [(15, 0), (31, 2), (47, 0), (63, 2)]);
        assert_eq!(odd.len(), 60);
    }

    /// With any sorts: none waits for more than 16 turns of others for each that waits, itself counted.
    #[test]
    fn nobody_starves() {
        for count in [2, 3, 7, 40] {
            let sorts: Vec<u16> = (0..count).map(|n: u16| n * 37 % 11).collect();
            let order = turns(&mut of(&sorts), usize::from(count) * 200);
            let bound = ODDS as usize * usize::from(count);
            for who in 0..u32::from(count) {
                let at = (0..).zip(&order).filter(|(_, w)| **w == who).map(|(at, _)| at);
                let at: Vec<usize> = at.chain([order.len()]).collect();
                let longest = at.windows(2).map(|w| w[1] - w[0] - 1).max().unwrap();
                assert!(longest.max(at[0]) <= bound, "{who} of {count} waits for {longest}");
            }
        }
    }

    #[test]
    fn of_one_sort_all_have_as_many() {
        let order = turns(&mut of(&[4, 4, 4]), 16 * 30);
        for who in 0..3 {
            let taken = order.iter().filter(|w| **w == who).count();
            assert!((150..=176).contains(&taken), "{who} has {taken} of {}", order.len());
        }
    }

    /// Who was picked and had nothing to do has used no turn: the odd one is of whoever waits longest behind.
    #[test]
    fn no_turn_is_none() {
        let mut sorted = of(&[0, 1, 9]);
        let mut order = Vec::new();
        while order.len() < 32 {
            let Turn { item, .. } = sorted.pick().unwrap();
            sorted.used(u32::from(item.1 > 0));
            if item.1 > 0 {
                order.push(item.1);
                sorted.push(item.0, item);
            }
        }
        assert_eq!(order.iter().position(|who| *who == 1), Some(15), "{order:?}");
    }

    #[test]
    fn who_is_taken_out_has_no_turn() {
        let mut sorted = of(&[1, 1, 3]);
        sorted.remove(|item| item.1 == 2);
        assert_eq!((sorted.len, sorted.sort()), (2, Some(1)));
        assert!(!turns(&mut sorted, 100).contains(&2));
    }
}
