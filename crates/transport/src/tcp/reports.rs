//! The SACK blocks made from what was received beyond a hole (RFC 2018, section 4; RFC 2883).

use crate::ranges::Ranges;
use fusewire_base::Seq;
use fusewire_wire::tcp::Options;

impl Ranges {
    /// Puts blocks into an acknowledgement, DSACK first, then the ranges that changed last.
    pub fn report(&mut self, options: &mut Options, to_seq: impl Fn(u64) -> Seq) {
        if let Some((left, right)) = self.dsack.take() {
            options.push_sack(to_seq(left), to_seq(right));
            // A duplicate inside a range is followed by that range (RFC 2883, section 4.1.2).
            if let Some(&(l, r)) = self.range_at(left) {
                options.push_sack(to_seq(l), to_seq(r));
            }
        }
        let mut reported = 0;
        for i in 0..usize::from(self.recent_len) {
            let Some(&(left, right)) = self.range_at(self.recent[i]) else { continue };
            if options.sack_blocks().iter().skip(1).any(|b| *b == (to_seq(left), to_seq(right))) {
                reported = i + 1;
                continue;
            }
            if !options.push_sack(to_seq(left), to_seq(right)) {
                break;
            }
            reported = i + 1;
        }
        // What was just reported goes behind what still waits.
        let reported = reported.min(usize::from(self.unreported));
        if usize::from(self.unreported) > reported {
            self.recent[..usize::from(self.unreported)].rotate_left(reported);
        }
        self.unreported -= reported as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seq(position: u64) -> Seq {
        Seq(position as u32)
    }

    #[test]
    fn every_change_is_reported_and_the_latest_first() {
        let mut r = Ranges::new(16);
        for i in 0..7 {
            r.insert(100 + 100 * i, 150 + 100 * i);
        }
        let mut reported = Vec::new();
        let mut first = None;
        let mut acks = 0;
        while r.has_news() {
            let mut o = Options { timestamps: Some((0, 0)), ..Options::default() };
            r.report(&mut o, seq);
            first = first.or(o.sack_blocks().first().copied());
            reported.extend(o.sack_blocks().iter().map(|b| b.0.0));
            acks += 1;
            assert!(acks < 5);
        }
        assert_eq!(first, Some((Seq(700), Seq(750))));
        reported.sort_unstable();
        reported.dedup();
        assert_eq!(reported.len(), 7);
    }

    #[test]
    fn a_duplicate_is_reported_before_its_range() {
        let mut r = Ranges::new(16);
        r.insert(100, 200);
        r.note_duplicate(120, 140);
        let mut o = Options::default();
        r.report(&mut o, seq);
        assert_eq!(o.sack_blocks(), &[(Seq(120), Seq(140)), (Seq(100), Seq(200))]);
        assert!(!r.has_news());
    }
}
