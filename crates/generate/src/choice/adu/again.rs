//! What of a type is sent again: how often that comes in time, when, and how much of it is lost all the same.

use super::{Failure, Figures, LATE_SHARE_MAX, Subject};
use crate::catalogue::{Mechanism as M, Set};

/// The shortest timer of TCP and XTP (their settings' `rto_min`, `wtimer_min`).
const TIMER_MS_MIN: f64 = 200.0;
/// Milliseconds between reports of what came (RFC 8698's DELTA), and between those that something is missing, with what those wait
/// beyond the jitter.
const REPORT_MS: f64 = 100.0;
const EARLY_REPORT_MS: f64 = 25.0 + 2.0;
/// Milliseconds beyond the round trip and the jitter after which a packet of which nobody tells goes again: two reports, of which one
/// may be lost, and what the second may be late.
const UNTOLD_MS: f64 = 2.0 * REPORT_MS + 25.0;
/// ADUs of a type that a receiver of datagrams waits for, from the first that is missing.
const AHEAD_MAX: f64 = 48.0;
/// Of a deadline, what is left to whoever asks for what has come.
const LEFT: f64 = 1.0 / 16.0;
/// Times a resending is tried, as far as deadlines are concerned.
const RESENDS_MAX: u32 = 8;

impl Subject<'_> {
    /// Why nothing of it is sent again as long as it comes in time.
    pub(super) fn sent_again_in_time(&self, set: Set, fec: M) -> Result<(), Failure> {
        let adu = self.adu();
        let fail = |why: String, own: &[&str]| Err(Failure::new(why, self.clauses(own, &[])));
        if fec != M::NoFec {
            return fail("what is sent again needs no correction".to_owned(), &["reliability"]);
        }
        if set.has(M::Newest) && set.has(M::NoPlayout) {
            let why = "what is older than the newest is dropped, and what is sent again is older";
            return fail(why.to_owned(), &["order"]);
        }
        let hz = adu.rate_hz.value.map_or(0.0, |rate| rate.high);
        let ahead = hz * adu.deadline_ms.value.unwrap_or(0.0) / 1000.0;
        if ahead > AHEAD_MAX {
            let why = format!(
                "{ahead:.0} of them come before one is late, and a receiver waits for {AHEAD_MAX}"
            );
            return fail(why, &["rate_hz", "deadline_ms"]);
        }
        Ok(())
    }

    pub(super) fn too_late_again(&self, figures: &Figures) -> Failure {
        let ms = figures.time.all() + self.resend_ms(1);
        let deadline = self.adu().deadline_ms.value.unwrap_or(0.0);
        let why = format!("what is sent again comes after {ms:.0} ms, and {deadline} may pass");
        let clauses = self.clauses(&["deadline_ms"], &["rtt_ms", "jitter_ms"]);
        Failure::new(why, clauses).by(ms, deadline)
    }

    /// What is sent for one packet, with so many times what is lost of it.
    pub(super) fn sent_again(&self, resend: M, room: f64) -> f64 {
        let loss = self.of.network.loss.value.min(0.9);
        if resend == M::UntilDeadline { 1.0 + room * loss / (1.0 - loss) } else { 1.0 }
    }

    /// The share of ADUs that are lost with so many resendings of what is lost of them: each packet for itself, by what it loses at
    /// that time.
    pub(super) fn lost_after(&self, resends: u32, packets: u16, first: f64) -> f64 {
        let network = &self.of.network;
        let channel = self.channel(self.resend_ms(1));
        // Behind a packet that came, losses are as likely as ever; behind none they go on.
        let again = if self.is_followed() { network.loss.value } else { channel.again(1) };
        // It is too late as well where the next one is lost that shows that it is missing, or the report that says so.
        let is_told = if self.is_told() { (1.0 - network.loss.value).powi(2) } else { 1.0 };
        let again = 1.0 - (1.0 - again) * is_told;
        let lost = f64::from(packets) * network.loss.value;
        first.min((0..resends).fold(lost, |all, _| all * again))
    }

    /// Whether others follow so soon that they tell of one that is missing.
    pub(super) fn is_followed(&self) -> bool {
        let hz = self.adu().rate_hz.value.map_or(0.0, |rate| rate.low);
        hz > 0.0 && 1000.0 / hz <= self.of.network.rtt_ms.value.high.max(50.0)
    }

    /// Whether one that is missing is told of before its time is over: where losses come in rows the next ones are missing, too.
    pub(super) fn is_told(&self) -> bool {
        let network = &self.of.network;
        let is_short = network.jitter_ms.value <= REPORT_MS / 2.0;
        self.is_followed()
            && is_short
            && network.loss_burst.value <= 1.0
            && network.loss_burst_ms.value.is_none()
    }

    /// How often it is sent again in time, and for how long the last of these takes.
    pub(super) fn resends(
        &self,
        resend: M,
        figures: &Figures,
        first: f64,
        wanted: f64,
    ) -> (u32, f64) {
        let again = self.lost_again();
        let needed = |until: f64| {
            let (mut left, mut count) = (first, 0);
            while left > until && count < RESENDS_MAX {
                left *= again;
                count += 1;
            }
            count
        };
        match resend {
            M::NoResend => (0, 0.0),
            M::UntilDeadline => {
                let deadline = self.adu().deadline_ms.value.unwrap_or(f64::INFINITY);
                let slack = deadline * (1.0 - LEFT) - figures.time.all();
                let fit =
                    (1..=RESENDS_MAX).rev().find(|n| self.resend_ms(*n) <= slack).unwrap_or(0);
                let is_enough = |n: &u32| self.lost_after(*n, figures.packets, first) <= wanted;
                let count = fit.min((1..RESENDS_MAX).find(is_enough).unwrap_or(RESENDS_MAX));
                (count, self.resend_ms(count))
            }
            // What must arrive in time does but for a few.
            _ => {
                let count = needed(LATE_SHARE_MAX);
                (count, self.resend_ms(count))
            }
        }
    }

    /// The share of what a stream sends again that is lost like what was lost before: so many packets later as the same end sends at
    /// least until its timer runs out. Where it sends none, losses in a row go on.
    pub(super) fn lost_again(&self) -> f64 {
        let network = &self.of.network;
        let from = self.adu().from.value;
        let hz = self.of.adus.iter().filter(|adu| {
            let is_of = |role| adu.from.value.is(role) && from.is(role);
            is_of(0) || is_of(1)
        });
        let hz: f64 = hz.map(|adu| adu.rate_hz.value.map_or(0.0, |rate| rate.low)).sum();
        let timer_ms = network.rtt_ms.value.high.max(TIMER_MS_MIN);
        if network.loss_burst_ms.value.is_some() {
            return self.channel(timer_ms).again(1);
        }
        let between = (hz * timer_ms / 1000.0).clamp(0.0, 10_000.0) as u32;
        self.channel(timer_ms).again(1 + between)
    }

    /// Milliseconds until so many resendings have arrived, behind when the first would have.
    pub(super) fn resend_ms(&self, count: u32) -> f64 {
        let network = &self.of.network;
        let (rtt, jitter) = (network.rtt_ms.value.high, network.jitter_ms.value);
        if self.carrier.machine == M::Group {
            // RFC 5740: NACKs are held back for up to 4 GRTT, and repaired within one.
            return f64::from(count.min(1)) * 5.0 * rtt;
        }
        match self.carrier.machine {
            M::Tcp | M::Xtp => {
                let timer = (rtt + 4.0 * jitter).max(TIMER_MS_MIN);
                // The timer doubles each time.
                (0..count).fold((0.0, timer), |(all, timer), _| (all + timer, 2.0 * timer)).0
            }
            // The next packets tell that one is missing, which is reported when it cannot just be late any more; otherwise time
            // does. The next one, its report and what is sent again each vary by the jitter; the round trip that is measured by two.
            _ if self.is_told() => {
                let hz = self.adu().rate_hz.value.map_or(0.0, |rate| rate.low);
                f64::from(count) * (rtt + 1000.0 / hz + 3.0 * jitter + EARLY_REPORT_MS)
            }
            _ => {
                let timer = rtt + 3.0 * jitter + UNTOLD_MS;
                // It doubles each time while no report comes: where nothing follows that would be reported.
                let more = if self.is_followed() { 1.0 } else { 2.0 };
                (0..count).fold((0.0, timer), |(all, timer), _| (all + timer, more * timer)).0
            }
        }
    }
}
