//! A clause: a value, where it stands, and what would be demanded without it.

use fusewire_asn1::{Source, Span};

use crate::plan::Sender;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It stands in the specification.
    Written,
    /// It stands there and could not be read, which is said: nothing is held against it.
    Unread,
    /// The clause `profile` of the same type says it.
    Profile,
    /// The language says it.
    Default,
}

impl Origin {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::Written => "written",
            Origin::Unread => "unread",
            Origin::Profile => "profile",
            Origin::Default => "default",
        }
    }
}

/// Which clause, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// `adu.Audio.deadline_ms`, `network.loss`.
    pub name: String,
    /// Where its value stands; for one that is not written where its table does.
    pub span: Span,
    /// Where it comes from.
    pub origin: Origin,
}

/// The value of a clause that is written in a line, as it stands in its file.
pub fn as_it_stands<'s>(source: &'s Source, clause: &Clause) -> Option<&'s str> {
    let is_written = matches!(clause.origin, Origin::Written | Origin::Unread);
    let (_, value) = source.slice(clause.span).split_once('=').filter(|_| is_written)?;
    Some(value.trim()).filter(|value| !value.is_empty() && !value.contains(['\n', '\r']))
}

/// Bounds of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
    /// Only whole ones.
    pub is_whole: bool,
}

impl Bounds {
    /// Any number between two.
    pub const fn new(low: f64, high: f64) -> Bounds {
        Bounds { low, high, is_whole: false }
    }

    /// Whole numbers.
    pub const fn whole(self) -> Bounds {
        Bounds { is_whole: true, ..self }
    }

    /// A number so far, from 0 to 1, on the way from this one to the largest.
    fn up(&self, from: f64, share: f64) -> f64 {
        let found = between(from, self.high.max(from), share);
        if self.is_whole { found.ceil() } else { found }
    }

    /// A number so far, from 0 to 1, on the way from this one to the least.
    fn down(&self, from: f64, share: f64) -> f64 {
        let found = between(from, self.low.min(from), share);
        if self.is_whole { found.floor().max(self.low.min(from)) } else { found }
    }
}

/// In which direction a value demands less, and the numbers that it may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Looser {
    /// It has no order: any other word may do.
    Never,
    /// A larger number.
    Up(Bounds),
    /// A smaller one.
    Down(Bounds),
    /// A smaller upper end; the lower one goes with it where they meet.
    HighDown(Bounds),
    /// A larger lower end; the upper one goes with it where they meet.
    LowUp(Bounds),
    /// A smaller lower end.
    LowDown(Bounds),
}

/// A value with its clause.
#[derive(Clone, Debug, PartialEq)]
pub struct Value<T> {
    /// The value.
    pub value: T,
    /// The one that demands nothing.
    pub relaxed: T,
    /// In which direction it demands less.
    pub looser: Looser,
    /// Which clause.
    pub clause: Clause,
}

/// Numbers in a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

impl Range {
    /// From one to another.
    pub fn new(low: f64, high: f64) -> Range {
        Range { low, high }
    }
}

/// What a clause of any type can do.
pub trait Clausal {
    /// Which it is.
    fn clause(&self) -> &Clause;
    /// Its value as the specification would have it.
    fn text(&self) -> String;
    /// Whether it demands anything.
    fn is_demanding(&self) -> bool;
    /// Makes it demand nothing.
    fn relax(&mut self);
    /// The value that is so far from this one, 0, to where it demands least, 1; of words those that come next. Nothing
    /// if it has neither an order nor other words.
    fn loosened(&self, share: f64) -> Option<String>;
    /// Takes that value, as if it were written.
    fn loosen(&mut self, share: f64);
}

impl<T: Written + Clone + PartialEq> Clausal for Value<T> {
    fn clause(&self) -> &Clause {
        &self.clause
    }

    fn text(&self) -> String {
        self.value.written()
    }

    fn is_demanding(&self) -> bool {
        self.value != self.relaxed
    }

    fn relax(&mut self) {
        self.value = self.relaxed.clone();
    }

    fn loosened(&self, share: f64) -> Option<String> {
        Some(self.value.loosened(self.looser, share)?.written())
    }

    fn loosen(&mut self, share: f64) {
        if let Some(value) = self.value.loosened(self.looser, share) {
            self.value = value;
            self.clause.origin = Origin::Written;
        }
    }
}

/// What can stand in a specification.
pub trait Written: Sized {
    /// As it stands there.
    fn written(&self) -> String;

    /// A value that demands less.
    fn loosened(&self, _looser: Looser, _share: f64) -> Option<Self> {
        None
    }
}

/// What a number may become is looked for in even ratios down to this share of it, and then at its limit.
const LEAST_SHARE: f64 = 1e-6;
/// Significant digits of a value that is proposed.
const DIGITS: i32 = 2;

/// A number between `from` and `to`, in even ratios, rounded away from `from` to few digits.
fn between(from: f64, to: f64, share: f64) -> f64 {
    if share >= 1.0 || from == to {
        return to;
    }
    let is_up = to > from;
    // What begins or ends at nothing has no ratio to it.
    let mut low = if from > 0.0 { from } else { to * LEAST_SHARE };
    let mut high = if to > 0.0 { to } else { from * LEAST_SHARE };
    // By repeated square roots, which every machine rounds alike.
    let mut rest = share.clamp(0.0, 1.0);
    for _ in 0..40 {
        let middle = low.sqrt() * high.sqrt();
        rest *= 2.0;
        if rest >= 1.0 {
            low = middle;
            rest -= 1.0;
        } else {
            high = middle;
        }
    }
    let found = rounded(low, is_up);
    if is_up { found.clamp(from, to) } else { found.clamp(to, from) }
}

/// A number to few significant digits, up or down.
pub fn rounded(value: f64, is_up: bool) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let mut exponent = 0;
    let mut of = value.abs();
    while of >= 10.0 {
        of /= 10.0;
        exponent += 1;
    }
    while of < 1.0 {
        of *= 10.0;
        exponent -= 1;
    }
    let digits = DIGITS - 1 - exponent;
    let ten = |n: i32| (0..n).fold(1.0_f64, |all, _| all * 10.0);
    let scaled = if digits >= 0 { value * ten(digits) } else { value / ten(-digits) };
    // What is a round number but for the last bit stays.
    let near = scaled.round();
    let whole = match (scaled - near).abs() < 1e-6 * near.abs() {
        true => near,
        false if is_up => scaled.ceil(),
        false => scaled.floor(),
    };
    if digits >= 0 { whole / ten(digits) } else { whole * ten(-digits) }
}

impl Written for f64 {
    fn written(&self) -> String {
        number(*self)
    }

    fn loosened(&self, looser: Looser, share: f64) -> Option<f64> {
        match looser {
            Looser::Up(of) => Some(of.up(*self, share)),
            Looser::Down(of) => Some(of.down(*self, share)),
            _ => None,
        }
    }
}

/// A number as TOML has it.
pub fn number(value: f64) -> String {
    if value.is_infinite() { "inf".to_owned() } else { format!("{value}") }
}

impl Written for Range {
    fn written(&self) -> String {
        format!("[{}, {}]", number(self.low), number(self.high))
    }

    fn loosened(&self, looser: Looser, share: f64) -> Option<Range> {
        let Range { low, high } = *self;
        Some(match looser {
            Looser::HighDown(of) => {
                let high = of.down(high, share);
                Range { low: low.min(high), high }
            }
            Looser::LowUp(of) => {
                let low = of.up(low, share);
                Range { low, high: high.max(low) }
            }
            Looser::LowDown(of) => Range { low: of.down(low, share), high },
            _ => return None,
        })
    }
}

impl<T: Written> Written for Option<T> {
    fn written(&self) -> String {
        self.as_ref().map_or("none".to_owned(), T::written)
    }

    fn loosened(&self, looser: Looser, share: f64) -> Option<Option<T>> {
        self.as_ref()?.loosened(looser, share).map(Some)
    }
}

impl Written for String {
    fn written(&self) -> String {
        format!("\"{self}\"")
    }
}

impl Written for Sender {
    fn written(&self) -> String {
        match self {
            Sender::Role(place) => format!("role {place}"),
            Sender::Both => "\"both\"".to_owned(),
        }
    }
}

impl Written for bool {
    fn written(&self) -> String {
        self.to_string()
    }

    fn loosened(&self, _looser: Looser, share: f64) -> Option<bool> {
        Some(*self != (share > 0.0))
    }
}

impl<T: Written> Written for Vec<T> {
    fn written(&self) -> String {
        format!("[{}]", self.iter().map(T::written).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::specification::Preference;

    #[test]
    fn proposals_have_few_digits_and_lie_on_the_loose_side() {
        assert_eq!(rounded(168.6, true), 170.0);
        assert_eq!(rounded(0.00273, true), 0.0028);
        assert_eq!(rounded(0.00279, false), 0.0027);
        assert_eq!(rounded(120.0, false), 120.0);
        let of = Bounds::new(0.0, 1000.0);
        assert_eq!(50.0.loosened(Looser::Up(of), 0.0), Some(50.0));
        assert_eq!(50.0.loosened(Looser::Up(of), 1.0), Some(1000.0));
        assert_eq!(50.0.loosened(Looser::Down(of), 0.5), Some(0.05));
        assert_eq!(50.0.loosened(Looser::Down(of), 1.0), Some(0.0));
        assert_eq!(0.0.loosened(Looser::Up(of), 0.5), Some(1.0));
        assert_eq!(0.2.loosened(Looser::Up(of), 1.0 / 32.0), Some(0.27));
        assert_eq!(2.0.loosened(Looser::Up(of.whole()), 0.01), Some(3.0));
    }

    #[test]
    fn an_end_of_a_range_takes_the_other_along() {
        let of = Range::new(40.0, 200.0);
        let at = |looser, share| of.loosened(looser, share).expect("it has an order");
        let bounds = Bounds::new(0.0, 1e6);
        assert_eq!(at(Looser::HighDown(bounds), 1.0), Range::new(0.0, 0.0));
        assert_eq!(at(Looser::HighDown(bounds), 0.01), Range::new(40.0, 170.0));
        assert_eq!(at(Looser::LowUp(bounds), 1.0), Range::new(1e6, 1e6));
    }

    #[test]
    fn of_words_the_next_ones_come() {
        let shares = [0.1, 0.3, 0.6, 1.0];
        let found = shares.map(|share| Preference::Require.loosened(Looser::Never, share));
        use Preference::{Avoid, None as Neither, Prefer, Prohibit};
        assert_eq!(found, [Prefer, Neither, Avoid, Prohibit].map(Some));
        assert_eq!(Avoid.loosened(Looser::Never, 0.3), Some(Preference::Require));
    }
}
