//! Packetization-layer path MTU discovery for datagrams (RFC 8899) as a machine without I/O.
//!
//! Sizes are those of a whole packet of the layer that probes: for UDP encapsulation the UDP payload.
//! The search asks sizes that paths really have first, then halves what is left.
//!
//! ```text
//!              base confirmed            nothing larger fits
//!   Base ────────────────────▶ Searching ───────────────────▶ Complete
//!    ▲ │ MAX_PROBES lost           ▲  raise timer, 600 s         │
//!    │ ▼                           └─────────────────────────────┤
//!   Error ◀───────────── black hole: losses at the current size ─┘ (to Base)
//! ```

use core::time::Duration;

use fusewire_base::Instant;

/// Bounds and timers (RFC 8899, section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// `MIN_PLPMTU`: what is used when not even the base gets through.
    pub min: u32,
    /// `BASE_PLPMTU`: expected to work on most paths.
    pub base: u32,
    /// `MAX_PLPMTU`: what the device can send.
    pub max: u32,
    /// `PROBE_TIMER`: a probe without an answer is lost.
    pub probe_timeout: Duration,
    /// `PMTU_RAISE_TIMER`: after this the search is tried again.
    pub raise_interval: Duration,
    /// `MAX_PROBES`: so many lost probes of one size say that it does not fit.
    pub probes_max: u32,
    /// The search ends when the next step would be smaller.
    pub step_min: u32,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            min: 1200,
            base: 1200,
            max: 65_507,
            probe_timeout: Duration::from_secs(15),
            raise_interval: Duration::from_secs(600),
            probes_max: 3,
            step_min: 32,
        }
    }
}

/// UDP payloads of well-known paths: Ethernet (IPv6 and IPv4, with tunnels below), 9000-byte frames,
/// 16 KiB, and loopback.
const COMMON: [u32; 9] = [1280, 1392, 1452, 1472, 4304, 8952, 8972, 16_384, 65_507];

/// Consecutive losses of packets above the base size that indicate a black hole. Losses within one round trip
/// count once.
const BLACK_HOLE_LOSSES: usize = 3;

/// The least common size of a whole Ethernet frame.
const ETHERNET: u32 = 1452;

/// Where the machine is (RFC 8899, section 5.2). It is always enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The base size is not confirmed yet.
    Base,
    /// Larger sizes are being tried.
    Searching,
    /// The largest size is known.
    Complete,
    /// Not even the base size gets through.
    Error,
}

/// A probe that is out.
#[derive(Clone, Copy, Debug)]
struct Probe {
    size: u32,
    sent: Instant,
}

/// Path MTU of one path.
#[derive(Clone, Debug)]
pub struct Search {
    config: Config,
    phase: Phase,
    /// `PLPMTU`: what has been confirmed to get through (or base, before).
    current: u32,
    /// The least size that is known not to get through, or max + 1.
    ceiling: u32,
    probe: Option<Probe>,
    /// `PROBE_COUNT`: probes of the size under test that were lost in a row.
    lost: u32,
    /// What is being tried.
    target: u32,
    /// Sizes of packets that were lost while no packet of at least that size was delivered; 0 in unused places.
    lost_sizes: [u32; BLACK_HOLE_LOSSES],
    /// Losses before this time belong to the round trip of the last one that was counted.
    next_loss_at: Instant,
    /// When the search may begin again.
    raise_at: Option<Instant>,
}

impl Search {
    /// A path of which nothing is known. With `base_confirmed` (the handshake went in packets of that
    /// size) the search begins at once.
    pub fn new(config: &Config, base_confirmed: bool) -> Self {
        let mut config = *config;
        config.base = config.base.clamp(config.min, config.max.max(config.min));
        let mut search = Search {
            config,
            phase: Phase::Base,
            current: config.base,
            ceiling: config.max.saturating_add(1),
            probe: None,
            lost: 0,
            target: config.base,
            lost_sizes: [0; BLACK_HOLE_LOSSES],
            next_loss_at: Instant::ZERO,
            raise_at: None,
        };
        if base_confirmed {
            search.confirm(config.base, Instant::ZERO);
        }
        search
    }

    /// `PLPMTU`: packets up to this size may be sent.
    pub fn size(&self) -> u32 {
        self.current
    }

    /// Where the machine is.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The size of a probe that should be sent now, if any. It stays the same until
    /// [`Search::on_probe_sent`].
    pub fn poll_probe(&mut self, now: Instant) -> Option<u32> {
        if self.probe.is_some() {
            return None;
        }
        if self.raise_at.is_some_and(|at| now >= at) {
            self.raise_at = None;
            match self.phase {
                Phase::Complete => self.begin_search(now),
                Phase::Error => self.phase = Phase::Base,
                Phase::Base | Phase::Searching => {}
            }
        }
        match self.phase {
            Phase::Base => Some(self.config.base),
            Phase::Searching => Some(self.target),
            Phase::Complete | Phase::Error => None,
        }
    }

    /// A probe of `size` left. It is not counted as congestion when it is lost (section 3, item 6).
    pub fn on_probe_sent(&mut self, now: Instant, size: u32) {
        self.probe = Some(Probe { size, sent: now });
    }

    /// When [`Search::handle_timeout`] or [`Search::poll_probe`] has something to do.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.probe {
            Some(probe) => Some(probe.sent + self.config.probe_timeout),
            None => self.raise_at,
        }
    }

    /// Time has passed: a probe without an answer is lost.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.probe.is_some_and(|probe| now >= probe.sent + self.config.probe_timeout) {
            self.on_probe_lost(now);
        }
    }

    /// A data packet of `size` bytes was delivered: losses of packets up to that size were not due to their size. A
    /// full packet also confirms the base size.
    #[inline]
    pub fn on_data_delivered(&mut self, now: Instant, size: u32) {
        self.forget_losses(size);
        if size >= self.current && matches!(self.phase, Phase::Base | Phase::Error) {
            self.probe = None;
            self.raise_at = None;
            self.phase = Phase::Base;
            self.confirm(self.current, now);
        }
    }

    #[inline]
    fn forget_losses(&mut self, size: u32) {
        self.lost_sizes.iter_mut().filter(|lost| **lost <= size).for_each(|lost| *lost = 0);
    }

    /// A probe of `size` bytes was delivered.
    pub fn on_delivered(&mut self, now: Instant, size: u32) {
        self.forget_losses(size);
        let answered = self.probe.is_some_and(|probe| size >= probe.size);
        if answered {
            self.probe = None;
        }
        if answered || size > self.current {
            self.confirm(size.min(self.config.max), now);
        }
    }

    /// The probe that was out is lost.
    pub fn on_probe_lost(&mut self, now: Instant) {
        let Some(probe) = self.probe.take() else { return };
        self.lost += 1;
        if self.lost < self.config.probes_max {
            return;
        }
        self.lost = 0;
        match self.phase {
            Phase::Base => self.fail(now),
            Phase::Searching => self.refuse(probe.size, now),
            Phase::Complete | Phase::Error => {}
        }
    }

    /// A data packet of `size` bytes was found lost, or its retransmission timer expired. Consecutive losses of packets
    /// above the base size, whatever their exact length, indicate a black hole (section 4.3): the search begins again at
    /// the base size. Losses within one `round_trip` count once. Returns `true` if the size was reduced.
    pub fn on_loss(
        &mut self,
        now: Instant,
        size: u32,
        round_trip: impl FnOnce() -> Duration,
    ) -> bool {
        if size <= self.config.base || self.current <= self.config.base || now < self.next_loss_at {
            return false;
        }
        self.next_loss_at = now + round_trip();
        let Some(unused) = self.lost_sizes.iter_mut().find(|lost| **lost == 0) else {
            return false;
        };
        *unused = size;
        if self.lost_sizes.contains(&0) {
            return false;
        }
        // Probes with their own count show later whether the size was the reason.
        self.fall_back();
        true
    }

    /// The device or a validated ICMP message said that packets above `size` do not fit (section 4.6).
    /// What is not below the size in use, or is below the least, is ignored.
    pub fn on_too_big(&mut self, now: Instant, size: u32) {
        if size >= self.ceiling || size < self.config.min {
            return;
        }
        self.ceiling = size + 1;
        if self.probe.is_some_and(|probe| probe.size > size) {
            self.probe = None;
            self.lost = 0;
        }
        if self.current > size {
            self.fall_back();
        } else if self.phase == Phase::Searching {
            self.choose(now);
        }
    }

    fn fall_back(&mut self) {
        self.phase = Phase::Base;
        self.current = self.config.base.min(self.ceiling - 1).max(self.config.min);
        self.probe = None;
        self.lost = 0;
        self.lost_sizes = [0; BLACK_HOLE_LOSSES];
        self.raise_at = None;
    }

    /// `size` is known to get through.
    fn confirm(&mut self, size: u32, now: Instant) {
        self.current = size;
        self.lost = 0;
        self.ceiling = self.ceiling.max(size + 1);
        if self.phase != Phase::Complete {
            self.phase = Phase::Searching;
            self.choose(now);
        }
    }

    /// `size` is known not to get through.
    fn refuse(&mut self, size: u32, now: Instant) {
        self.ceiling = self.ceiling.min(size);
        self.choose(now);
    }

    fn fail(&mut self, now: Instant) {
        self.phase = Phase::Error;
        self.current = self.config.min;
        self.raise_at = Some(now + self.config.raise_interval);
    }

    /// The path may have changed: everything above is open again.
    fn begin_search(&mut self, now: Instant) {
        self.ceiling = self.config.max.saturating_add(1);
        self.phase = Phase::Searching;
        self.lost = 0;
        self.choose(now);
    }

    /// The next size to try, or the end of the search. Common sizes first, and of these the largest:
    /// on loopback one probe is enough, and elsewhere the device has refused it at once.
    fn choose(&mut self, now: Instant) {
        let (low, high) = (self.current, self.ceiling);
        let next = if high > self.config.max && low < self.config.max {
            Some(self.config.max)
        } else {
            let mut common = COMMON.iter().copied().filter(|size| *size > low && *size < high);
            let count = common.clone().count();
            common.nth(count / 2).or_else(|| self.between())
        };
        match next {
            Some(size) => self.target = size,
            None => {
                self.phase = Phase::Complete;
                self.raise_at = Some(now + self.config.raise_interval);
            }
        }
    }

    /// The middle of what is left when no common size is. Between two links of common sizes there is
    /// hardly another: a tunnel takes its header from an Ethernet frame.
    fn between(&self) -> Option<u32> {
        let (low, high) = (self.current, self.ceiling);
        if high - low <= self.config.step_min || (low >= ETHERNET && COMMON.contains(&low)) {
            return None;
        }
        Some(low + (high - low) / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    /// Runs the search over a path that carries up to `mtu` bytes; returns the number of probes.
    fn run(search: &mut Search, now: &mut Instant, mtu: u32) -> u32 {
        let mut probes = 0;
        while let Some(size) = search.poll_probe(*now) {
            assert!(size > search.size() || search.phase() == Phase::Base);
            search.on_probe_sent(*now, size);
            assert_eq!(search.poll_probe(*now), None, "one probe at a time");
            probes += 1;
            if size <= mtu {
                *now += RTT;
                search.on_delivered(*now, size);
            } else {
                *now = search.poll_timeout().unwrap();
                search.handle_timeout(*now);
            }
            assert!(search.size() <= mtu.max(1200));
            assert!(probes < 60, "the search does not end");
        }
        probes
    }

    #[test]
    fn finds_every_path_mtu_closely() {
        for mtu in (1200..=1600).chain((1601..65_507).step_by(997)).chain(COMMON) {
            let mut search = Search::new(&Config::default(), false);
            let mut now = Instant::ZERO;
            let probes = run(&mut search, &mut now, mtu);
            assert_eq!(search.phase(), Phase::Complete);
            let common = COMMON.iter().rev().find(|size| **size <= mtu).copied().unwrap_or(1200);
            let found = search.size();
            assert!(found <= mtu && found >= common, "path {mtu}: found {found}");
            if mtu < ETHERNET {
                assert!(mtu - found <= 32, "path {mtu}: found {found}");
            }
            assert!(probes <= 30, "path {mtu}: {probes} probes");
        }
    }

    #[test]
    fn loopback_needs_one_probe_after_the_base() {
        let mut search = Search::new(&Config::default(), true);
        assert_eq!(run(&mut search, &mut Instant::ZERO.clone(), 65_507), 1);
        assert_eq!((search.size(), search.phase()), (65_507, Phase::Complete));
    }

    #[test]
    fn a_device_that_refuses_saves_probes() {
        let mut search = Search::new(&Config::default(), true);
        let mut now = Instant::ZERO;
        let probe = search.poll_probe(now).unwrap();
        assert_eq!(probe, 65_507);
        search.on_too_big(now, 1472);
        let mut probes = 0;
        while let Some(size) = search.poll_probe(now) {
            assert!(size <= 1472);
            search.on_probe_sent(now, size);
            now += RTT;
            search.on_delivered(now, size);
            probes += 1;
        }
        assert_eq!((search.size(), search.phase()), (1472, Phase::Complete));
        assert!(probes <= 3);
    }

    #[test]
    fn one_lost_probe_is_tried_again() {
        let mut search = Search::new(&Config::default(), true);
        let mut now = Instant::ZERO;
        for _ in 0..2 {
            assert_eq!(search.poll_probe(now), Some(65_507));
            search.on_probe_sent(now, 65_507);
            search.on_probe_lost(now);
        }
        assert_eq!(run(&mut search, &mut now, 65_507), 1);
        assert_eq!(search.size(), 65_507);
    }

    #[test]
    fn a_black_hole_leads_back_to_the_base() {
        let mut search = Search::new(&Config::default(), true);
        let mut now = Instant::ZERO;
        run(&mut search, &mut now, 8952);
        assert_eq!(search.size(), 8952);
        fn lose(search: &mut Search, now: &mut Instant, size: u32) -> bool {
            *now += RTT;
            search.on_loss(*now, size, || RTT)
        }
        // Losses with deliveries between them are congestion.
        for _ in 0..20 {
            assert!(!lose(&mut search, &mut now, 8952) && !lose(&mut search, &mut now, 8000));
            search.on_data_delivered(now, 8952);
        }
        assert!(!lose(&mut search, &mut now, 8952));
        for _ in 0..20 {
            assert!(!search.on_loss(now, 8952, || RTT), "one round trip counts once");
        }
        for _ in 0..20 {
            assert!(!lose(&mut search, &mut now, 1200), "a packet of the base size says nothing");
        }
        search.on_data_delivered(now, 8952);
        // Shorter packets arrive, and longer ones of any length do not.
        assert!(!lose(&mut search, &mut now, 1400));
        search.on_data_delivered(now, 1300);
        assert!(!lose(&mut search, &mut now, 8952));
        search.on_data_delivered(now, 1300);
        assert!(lose(&mut search, &mut now, 5000));
        assert_eq!((search.size(), search.phase()), (1200, Phase::Base));
        run(&mut search, &mut now, 1452);
        assert_eq!(search.size(), 1452);
    }

    #[test]
    fn not_even_the_base_gets_through() {
        let config = Config { min: 600, ..Config::default() };
        let mut search = Search::new(&config, false);
        let mut now = Instant::ZERO;
        for _ in 0..config.probes_max {
            let size = search.poll_probe(now).unwrap();
            search.on_probe_sent(now, size);
            now = search.poll_timeout().unwrap();
            search.handle_timeout(now);
        }
        assert_eq!(
            (search.phase(), search.size(), search.poll_probe(now)),
            (Phase::Error, 600, None)
        );
        now = search.poll_timeout().unwrap();
        assert_eq!(search.poll_probe(now), Some(1200), "tried again later");
    }

    #[test]
    fn searches_again_after_the_raise_timer() {
        let mut search = Search::new(&Config::default(), true);
        let mut now = Instant::ZERO;
        run(&mut search, &mut now, 1472);
        let raise = search.poll_timeout().unwrap();
        assert_eq!(raise - now, Duration::from_secs(600));
        assert_eq!(search.poll_probe(now), None);
        now = raise;
        run(&mut search, &mut now, 9000);
        assert_eq!(search.size(), 8972);
    }

    #[test]
    fn forged_sizes_do_not_lower_below_the_least() {
        let mut search = Search::new(&Config::default(), true);
        let mut now = Instant::ZERO;
        run(&mut search, &mut now, 8972);
        for size in [0, 68, 576, 1199] {
            search.on_too_big(now, size);
            assert_eq!(search.size(), 8972);
        }
        search.on_too_big(now, 9000);
        assert_eq!(search.size(), 8972);
        search.on_too_big(now, 4000);
        assert_eq!((search.size(), search.phase()), (1200, Phase::Base));
        run(&mut search, &mut now, 4000);
        assert!(search.size() <= 4000 && search.size() >= 1472);
    }
}
